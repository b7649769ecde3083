#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>

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

/// What may differ between small runs.
struct small_options {
  std::string optimizer = "momentum";
  std::optional<double> rate = 0.05; ///< none: that of the rule
  double clip_norm = 0;
  std::string cure = "none";
  std::uint64_t local_steps = 0;
  std::uint32_t workers = 0; ///< 0: one on each device
  std::size_t micro_batches = 1;
  product_precision precision = product_precision::float32;
  std::size_t batch = 8;
  std::uint64_t epochs = 4, steps = 0;
  std::uint32_t shards = 1;
  std::uint64_t seed = 3, sample_gap = 0;
  interval metrics_every{.span = std::chrono::seconds{1}}, evaluate_every{};
  std::string stop_when{};
  std::uint64_t patience = 0;
  kept_weights keep = kept_weights::last;
  bool weights_there = false; ///< of gpu_options(): the weights lie on the GPU as well
};

inline training_options options_for(std::string policy, std::uint32_t devices, const small_options& s = {}) {
  training_options o{.devices = cores(devices),
                     .workers = s.workers,
                     .micro_batches = s.micro_batches,
                     .policy = std::move(policy),
                     .cure = s.cure,
                     .optimizer = parse_optimizer(s.optimizer),
                     .local_steps = s.local_steps,
                     .batch = s.batch,
                     .epochs = s.epochs,
                     .steps = s.steps,
                     .shards = s.shards,
                     .seed = s.seed,
                     .sample_gap = s.sample_gap,
                     .metrics_every = s.metrics_every,
                     .evaluate_every = s.evaluate_every,
                     .stop_when = s.stop_when,
                     .patience = s.patience,
                     .keep = s.keep};
  o.precision = s.precision;
  if (s.rate) o.optimizer.learning_rate = s.rate;
  o.optimizer.clip_norm = s.clip_norm;
  return o;
}

inline constexpr std::uint64_t for_ever = 1'000'000'000; ///< epochs: nothing but the test ends the run

inline training_options endless(const std::string& policy, std::uint32_t workers = 2, small_options s = {}) {
  s.epochs = for_ever;
  return options_for(policy, workers, s);
}

inline training_report trained(const training_options& o,
                               std::shared_ptr<const data_split> data = small_data()) {
  return train(small_model(), std::move(data), o);
}

/// The report of a run that is to complete with books that balance.
inline training_report completed(const training_options& o,
                                 std::shared_ptr<const data_split> data = small_data(),
                                 const model_function& model = small_model()) {
  training_report r = train(model, std::move(data), o);
  EXPECT_EQ(r.ended, "completed") << r.why;
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  return r;
}

/// A run that ends in this way, for that reason, and with books that balance.
template <class Why>
training_report expect_ended(const char* how, const Why& why, training_report r) {
  EXPECT_EQ(r.ended, how);
  EXPECT_THAT(r.why, why);
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  return r;
}

/// Stops a run at its event of this kind and number.
template <class Event>
void stop_at(training& run, int number, const char* why) {
  run.observe([&run, why, left = std::make_shared<std::atomic<int>>(number)](const run_event& e) {
    if (std::holds_alternative<Event>(e) && --*left == 0) run.stop(why);
  });
}

/// The weights with which a run completes.
inline std::vector<float> weights_of(const training_options& o,
                                     std::shared_ptr<const data_split> data = small_data(),
                                     const model_function& model = small_model()) {
  training run(model, std::move(data), o);
  EXPECT_EQ(run.report().ended, "completed") << run.report().why;
  const auto weights = run.parameters();
  return {weights.begin(), weights.end()};
}

/// The run that repeats what such a run has recorded.
inline training_options replay_of(training_options o) {
  o.replay = std::make_shared<const recording>(read_recording(std::exchange(o.record, "")));
  return o;
}

/// Records a run and expects that it is repeated bit for bit. Returns the options of its replay.
inline training_options expect_repeatable(training_options o,
                                          const std::shared_ptr<const data_split>& data = small_data(),
                                          const model_function& model = small_model()) {
  const scratch_folder folder;
  o.record = (folder.path() / "run.rec").string();
  const training_report was = completed(o, data, model);
  o = replay_of(std::move(o));
  EXPECT_EQ(completed(o, data, model).parameters_sha256, was.parameters_sha256);
  return o;
}

inline std::shared_ptr<const checkpoint> newest_in(const std::filesystem::path& folder) {
  return std::make_shared<const checkpoint>(newest_checkpoint(folder).what);
}

/// A run that goes on from the newest checkpoint of its first two epochs, which it leaves in `folder`.
inline training_options resumed(training_options o, const std::filesystem::path& folder,
                                std::uint64_t every_steps = 5) {
  training_options half = o;
  half.epochs = 2;
  half.checkpoints = {.folder = folder.string(), .every_steps = every_steps};
  completed(half);
  o.resume = newest_in(folder);
  return o;
}

} // namespace mailgrad::testing
