#pragma once

#include "../../../support/card_array.hpp"
#include "../../../support/google_test_names.hpp"
#include "../../../support/simulated_card/card_control.hpp"
#include "../../../support/simulated_card/sanitizers.hpp"

#include <mailgrad/kernels/cuda/card_lane.hpp>
#include <mailgrad/kernels/cuda/launch.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace mailgrad::testing {

/// 0, 1, 2 and so on.
inline std::vector<float> counted(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
  return values;
}

/// A test of the simulated card itself, which begins and ends as the environment has set it up.
class simulator_test : public ::testing::Test {
protected:
  simulator_test() { simulated_card::set_up(simulated_card::settings{}); }
  ~simulator_test() override { simulated_card::set_up(simulated_card::default_settings()); }

  static void run_in(const simulated_card::schedule& order) { simulated_card::set_up({.order = order}); }
  static const cuda_stream& stream_of(const cuda::card_lane& lane) {
    return std::get<cuda_stream>(lane.where());
  }

  /// What a call throws; empty if nothing.
  template <class Call>
  static std::string refusal(Call call) {
    try {
      call();
    } catch (const device_error& e) {
      return e.what();
    }
    return {};
  }
};

} // namespace mailgrad::testing
