#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <random>
#include <string>

namespace mailgrad::testing {

/// One order in which messages may arrive. A random generator with a seed draws the next message each time.
class drawn_order {
public:
  explicit drawn_order(std::uint64_t seed) : seed_(seed), random_(seed) {}

  std::uint64_t seed() const noexcept { return seed_; }

  /// Draws a number below `bound`, for the next message or for any other random choice of a test.
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

private:
  std::uint64_t seed_;
  std::mt19937_64 random_;
};

/// Orders of a run on the simulated card, which ThreadSanitizer slows down most. It tries one of them: it
/// finds two accesses that nothing orders whichever comes first.
constexpr std::uint64_t orders_on_card(std::uint64_t count) {
#ifdef __SANITIZE_THREAD__
  return std::min<std::uint64_t>(count, 1);
#else
  return count;
#endif
}

/// `for (drawn_order& order : drawn_orders(500))` tries the orders of 500 seeds, from 0. The environment may
/// ask for others: MAILGRAD_ORDERS for so many, MAILGRAD_FIRST_ORDER from another seed.
///
/// The loop ends after the first order with a failure, and every failure names the seed of its order. Under
/// ThreadSanitizer the loop tries a hundredth of the orders, but at least ten: one thread has no data
/// races.
class drawn_orders {
public:
#ifdef __SANITIZE_THREAD__
  explicit drawn_orders(std::uint64_t count)
      : count_(asked("MAILGRAD_ORDERS", std::min(count, std::max<std::uint64_t>(10, count / 100)))) {}
#else
  explicit drawn_orders(std::uint64_t count) : count_(asked("MAILGRAD_ORDERS", count)) {}
#endif

  /// The number of orders to try if none fails.
  std::uint64_t count() const noexcept { return count_; }

  class iterator {
  public:
    iterator(std::uint64_t first, std::uint64_t count) : end_(first + count) { enter(first); }

    drawn_order& operator*() { return order_; }
    iterator& operator++() {
      enter(order_.seed() + 1);
      return *this;
    }
    bool operator==(std::default_sentinel_t) const {
      return order_.seed() == end_ || ::testing::Test::HasFailure();
    }

  private:
    void enter(std::uint64_t seed) {
      order_ = drawn_order(seed);
      trace_.reset(); // GoogleTest keeps a stack of traces, so this one must go before the next is made
      trace_.emplace(__FILE__, __LINE__, "in the order of seed " + std::to_string(seed));
    }

    std::uint64_t end_;
    drawn_order order_{0};
    std::optional<::testing::ScopedTrace> trace_;
  };

  iterator begin() const { return {asked("MAILGRAD_FIRST_ORDER", 0), count_}; }
  std::default_sentinel_t end() const { return {}; }

private:
  static std::uint64_t asked(const char* name, std::uint64_t usual) {
    const char* const text = std::getenv(name); // NOLINT(concurrency-mt-unsafe)
    return text ? std::strtoull(text, nullptr, 10) : usual;
  }

  std::uint64_t count_;
};

} // namespace mailgrad::testing
