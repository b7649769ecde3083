#pragma once

#include <mailgrad/tests/actors/runs/small_training.hpp>

#include <mailgrad/data/data_reading.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

// Runs that nothing ends but what a test asks for.

namespace mailgrad::testing {

inline constexpr std::uint64_t for_ever = 1'000'000'000;

inline std::shared_ptr<const data_split> with_validation() {
  auto data = std::make_shared<data_split>(*small_data());
  hold_out(*data, 0.25, 1);
  return data;
}

inline training_options endless(const std::string& policy) {
  training_options o = options_for(policy, 2);
  o.epochs = for_ever;
  return o;
}

inline std::shared_ptr<const checkpoint> newest_in(const std::filesystem::path& folder) {
  return std::make_shared<const checkpoint>(newest_checkpoint(folder).what);
}

} // namespace mailgrad::testing
