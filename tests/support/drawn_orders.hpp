#pragma once

#include <mailgrad/tests/support/slices.hpp>

#include <gtest/gtest.h>

#include <iterator>
#include <random>

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

/// `for (drawn_order& order : drawn_orders(500))` tries the orders of 500 seeds, from 0, or a slice of them:
/// a tenth, but at least ten, or as many as a loop says in which each order takes many runs. The environment
/// may ask for others: MAILGRAD_ORDERS for so many, MAILGRAD_FIRST_ORDER from another seed.
///
/// The loop ends after the first order with a failure, and every failure names the seed of its order. Under
/// ThreadSanitizer the loop tries a hundredth of the orders, but at least ten: one thread has no data
/// races.
class drawn_orders {
public:
  explicit drawn_orders(std::uint64_t count, std::uint64_t least = 10)
      : seeds_(slice_or("MAILGRAD_ORDERS", "MAILGRAD_FIRST_ORDER", all_of(count), least)) {}

  /// The number of orders to try if none fails.
  std::uint64_t count() const noexcept { return seeds_.size(); }

  class iterator {
  public:
    iterator(std::uint64_t first, std::uint64_t end) : end_(end) { enter(first); }

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

  iterator begin() const { return {*seeds_.begin(), *seeds_.end()}; }
  std::default_sentinel_t end() const { return {}; }

private:
  static constexpr std::uint64_t all_of(std::uint64_t count) {
#ifdef __SANITIZE_THREAD__
    return std::min(count, std::max<std::uint64_t>(10, count / 100));
#else
    return count;
#endif
  }

  slice seeds_;
};

/// Orders of a run on the simulated GPU, each of which takes long: a slice has two. ThreadSanitizer slows
/// them down most, and tries one. It finds two accesses that nothing orders whichever comes first.
inline drawn_orders orders_on_gpu(std::uint64_t count) {
#ifdef __SANITIZE_THREAD__
  return drawn_orders(std::min<std::uint64_t>(count, 1));
#else
  return drawn_orders(count, 2);
#endif
}

} // namespace mailgrad::testing
