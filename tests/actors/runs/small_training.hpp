#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gtest/gtest.h>

#include <algorithm>

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

inline constexpr std::uint64_t for_ever = 1'000'000'000; ///< epochs: nothing but the test ends the run

inline training_options endless(const std::string& policy, std::uint32_t workers = 2) {
  training_options o = options_for(policy, workers);
  o.epochs = for_ever;
  return o;
}

inline training_report trained(const training_options& o,
                               std::shared_ptr<const data_split> data = small_data()) {
  return train(small_model(), std::move(data), o);
}

/// The report of a run that is to complete with books that balance.
inline training_report completed(const model_function& model, std::shared_ptr<const data_split> data,
                                 const training_options& o) {
  training_report r = train(model, std::move(data), o);
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  return r;
}
inline training_report completed(const training_options& o,
                                 std::shared_ptr<const data_split> data = small_data()) {
  return completed(small_model(), std::move(data), o);
}

/// The weights with which a run completes.
inline std::vector<float> weights_of(const model_function& model, std::shared_ptr<const data_split> data,
                                     const training_options& o) {
  training run(model, std::move(data), o);
  EXPECT_EQ(run.report().ended, "completed") << run.report().why;
  const auto weights = run.parameters();
  return {weights.begin(), weights.end()};
}
inline std::vector<float> weights_of(const training_options& o) {
  return weights_of(small_model(), small_data(), o);
}

/// The run that repeats what such a run has recorded.
inline training_options replay_of(training_options o) {
  o.replay = std::make_shared<const recording>(read_recording(std::exchange(o.record, "")));
  return o;
}

/// Records a run and expects that it is repeated bit for bit. Returns the options of its replay.
inline training_options expect_repeatable(const model_function& model,
                                          const std::shared_ptr<const data_split>& data, training_options o) {
  const scratch_folder folder;
  o.record = (folder.path() / "run.rec").string();
  const training_report was = completed(model, data, o);
  o = replay_of(std::move(o));
  EXPECT_EQ(completed(model, data, o).parameters_sha256, was.parameters_sha256);
  return o;
}
inline training_options expect_repeatable(training_options o) {
  return expect_repeatable(small_model(), small_data(), std::move(o));
}

inline std::shared_ptr<const checkpoint> newest_in(const std::filesystem::path& folder) {
  return std::make_shared<const checkpoint>(newest_checkpoint(folder).what);
}

} // namespace mailgrad::testing
