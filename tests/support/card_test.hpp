#pragma once

#include "card_array.hpp"

#include <mailgrad/kernels/cuda/card_lane.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <variant>
#include <vector>

namespace mailgrad::testing {

/// A test that runs on a card: the simulated one, or a real one, without which it skips itself.
class card_test : public ::testing::Test {
protected:
  void SetUp() override {
    const auto found = cuda::runtime::find_cards();
    if (found.cards.empty()) GTEST_SKIP() << found.why_none;
    lane_.emplace(0);
  }

  cuda::card_lane& lane() { return *lane_; }
  /// The stream that kernels take.
  const stream& card() { return lane_->where(); }
  /// The same, for functions of namespace cuda.
  const cuda_stream& on_card() { return std::get<cuda_stream>(lane_->where()); }

  /// The stream that kernels take, which number only so many elements in 32 bits.
  stream card_with_few_in_32_bits(std::size_t most) {
    cuda_stream s = on_card();
    s.most_in_32_bits = most;
    return s;
  }

  template <class T>
  card_array<T> array(const std::vector<T>& values) {
    return {lane(), values};
  }
  /// An array that a kernel has still to write.
  template <class T>
  card_array<T> unwritten(std::size_t n) {
    return {lane(), n};
  }

private:
  std::optional<cuda::card_lane> lane_;
};

} // namespace mailgrad::testing
