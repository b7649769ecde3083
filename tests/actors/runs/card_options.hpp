#pragma once

#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/support/needs_card.hpp>

#include <gtest/gtest.h>

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

/// The weights lie on the card as well.
inline training_options all_on_card(const std::string& policy, std::uint32_t lanes) {
  training_options o = card_options(policy, lanes);
  o.parameters = {{device_kind::cuda, 0}};
  return o;
}

/// The weights with which a run of the small model ends.
inline std::vector<float> weights_of(const training_options& o) {
  training run(small_model(), small_data(), o);
  run.report();
  const auto found = run.parameters();
  return {found.begin(), found.end()};
}

/// Fixture of whole runs on lanes of a card, on threads: the simulated card, or a real one.
class CardRuns : public ::testing::Test {
protected:
  void SetUp() override { MAILGRAD_NEEDS_CARD(); }
};

} // namespace mailgrad::testing
