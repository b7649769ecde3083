#pragma once

#include <mailgrad/tests/engine/small_problem.hpp>

#include <mailgrad/actors/training.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Whole runs of a small model, on an actor system with threads.

namespace mailgrad::testing {

/// A device for each of `workers` workers. They share up to two cores of this machine.
inline std::vector<device> cores(std::uint32_t workers) {
  const auto present = static_cast<std::uint32_t>(available_devices().size());
  std::vector<device> devices;
  for (std::uint32_t r = 0; r < workers; ++r)
    devices.push_back({device_kind::cpu, r % std::min(2U, present)});
  return devices;
}

inline training_options options_for(std::string policy, std::uint32_t workers,
                                    const std::string& optimizer = "momentum") {
  training_options o;
  o.devices = cores(workers);
  o.policy = std::move(policy);
  o.optimizer = parse_optimizer(optimizer);
  o.optimizer.learning_rate = 0.05;
  o.batch = 8;
  o.epochs = 4;
  o.seed = 3;
  return o;
}

inline training_report trained(const training_options& o,
                               std::shared_ptr<const data_split> data = small_data()) {
  return train(small_model(), std::move(data), o);
}

} // namespace mailgrad::testing
