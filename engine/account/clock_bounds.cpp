#include <mailgrad/engine/account/clock_bounds.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mailgrad {

namespace {

constexpr std::int64_t drifts_one_in = 10'000;

} // namespace

void clock_bounds::add(instant sent, instant came) { messages_.push_back({sent, came, {}, came - sent}); }

void clock_bounds::answer(instant answered) {
  if (messages_.empty() || answered < messages_.back().sent) return;
  const instant least = messages_.back().came - answered;
  messages_.back().least = std::max(least, messages_.back().least.value_or(least));
}

void clock_bounds::narrow(bounds& by, const bounds& other) {
  const instant drift = std::chrono::abs(by.came - other.came) / drifts_one_in;
  by.most = std::min(by.most, other.most + drift);
  if (other.least) by.least = std::max(by.least.value_or(instant::min()), *other.least - drift);
}

/// Bounds that exclude each other are those of a clock that was set, or that stood still while its machine
/// slept.
clock_offset clock_bounds::offset_in(const bounds& b) {
  if (!b.least || *b.least > b.most) return {b.most, std::nullopt};
  if (*b.least <= instant{0} && b.most >= instant{0}) return {instant{0}, std::max(-*b.least, b.most)};
  const instant half = (b.most - *b.least) / 2;
  return {*b.least + half, half};
}

std::vector<clock_offset> clock_bounds::offsets() const {
  std::vector<bounds> all = messages_;
  for (std::size_t i = 1; i < all.size(); ++i) narrow(all[i], all[i - 1]);
  for (std::size_t i = all.size(); i-- > 1;) narrow(all[i - 1], all[i]);
  std::vector<clock_offset> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool contradicts = all[i].least && *all[i].least > all[i].most;
    found.push_back(offset_in(contradicts ? messages_[i] : all[i]));
  }
  return found;
}

} // namespace mailgrad
