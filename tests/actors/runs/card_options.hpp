#pragma once

#include <mailgrad/tests/actors/runs/small_training.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace mailgrad::testing {

/// A small run on so many lanes of the card.
inline training_options card_options(const std::string& policy, std::uint32_t lanes) {
  training_options o = options_for(policy, lanes);
  for (std::uint32_t i = 0; i < lanes; ++i) o.devices[i] = {device_kind::cuda, 0, i};
  return o;
}

/// The weights with which a run of the small model ends.
inline std::vector<float> weights_of(const training_options& o) {
  training run(small_model(), small_data(), o);
  run.report();
  const auto found = run.parameters();
  return {found.begin(), found.end()};
}

} // namespace mailgrad::testing
