#pragma once

#include <mailgrad/tests/actors/runs/gpu_fault_cases.hpp>
#include <mailgrad/tests/actors/runs/gpu_orders.hpp>
#include <mailgrad/tests/actors/runs/keeping_writer.hpp>
#include <mailgrad/tests/actors/runs/run_checks.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>

#include <mailgrad/actors/protocol/metrics_messages.hpp>
#include <mailgrad/actors/run/run_recorder.hpp>
#include <mailgrad/graph/models/built_in.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Whole runs on the simulated GPU in which the n-th allocation, kernel or call fails.

namespace mailgrad::testing {

/// What is left of a run.
struct remains {
  std::string refused; ///< why no run was assembled; empty: it was
  std::optional<run_outcome> outcome;
  std::optional<training_report> report;
  keeping_writer::kept_checkpoints checkpoints;
  std::vector<float> weights; ///< empty if a shard is lost
  bool balanced = true;
  simulated_gpu::counters counted;
};

class GpuFaults : public GpuRun, public ::testing::WithParamInterface<std::tuple<fault_case, fault_kind>> {
protected:
  GpuFaults() {
    if (what().model) data_ = tastes();
  }

  static const fault_case& what() { return std::get<0>(GetParam()); }
  static const fault_kind& kind() { return std::get<1>(GetParam()); }

  assembly assembly_of_case() const {
    const fault_case& c = what();
    assembly a;
    a.policy = c.policy;
    a.local_steps = c.local_steps;
    a.cure = c.cure;
    a.sample_gap = c.sample_gap;
    a.checkpoint_every = 3;
    if (c.model) a.model = *built_in_model(c.model);
    if (c.mixed) a.shards = 3;
    if (c.alone) a.workers = 1;
    if (c.local_steps > 0) a.optimizer = "sgd";
    a.clip_norm = c.clip_norm;
    if (!c.spans) return a;
    a.devices_each = 2;
    a.micro_batches = 3; // of a batch of 4: sizes 2, 1, 1
    return a;
  }

  /// One run that fails there, or not at all.
  remains run(const simulated_gpu::faults& fail, std::uint64_t seed) {
    assembly a = assembly_of_case();
    if (what().resumes) a.resume = begun();
    return run(a, fail, seed);
  }
  remains run(assembly a, const simulated_gpu::faults& fail, std::uint64_t seed) {
    const auto watch = std::make_shared<asked_watch>();
    const auto kept = std::make_shared<keeping_writer::kept_checkpoints>();
    drawn_order order(seed);
    remains left;
    std::stringbuf recorded;
    set_up(fail);
    a = place(std::move(a), watch);
    a.checkpoint_writer = messaging::spawn<keeping_writer>(system_.actors(), kept);
    if (what().records && !a.resume) a.recorder = recorder_into(recorded, a);
    try {
      const assembled_run run = assemble(a);
      play(order, *watch, 60);
      std::vector<listener<shard_read>> test;
      for (const caf::actor& shard : run.shards) test.emplace_back(system_.actors(), shard, read_shard{});
      play(order, *watch);
      left.counted = simulated_gpu::count();
      set_up();
      take(run, left);
      if (a.recorder && left.outcome) expect_recorded(run, left, recorded);
      for (const auto& reader : test) messaging::kill(reader.actor());
    } catch (const std::exception& e) {
      set_up();
      left.refused = e.what();
    }
    messaging::kill(a.checkpoint_writer);
    messaging::kill(a.recorder);
    for (system_.run(); watch->watched() > 0; system_.run()) watch->ask();
    left.checkpoints = *kept;
    return left;
  }

  assembly place(assembly a, const std::shared_ptr<asked_watch>& watch) const {
    if (!what().weights_there && !what().spans) return on_gpu(std::move(a), data_, watch);
    if (what().weights_there) a.parameters = {{device_kind::cuda, 0}};
    a.watch = watch;
    for (std::uint32_t stream = 0; what().spans && stream < 2 * a.workers; ++stream)
      a.devices.push_back({device_kind::cuda, 0, stream});
    if (!what().mixed) return a;
    a.parameters = {{device_kind::cuda, 0}, {}, {device_kind::cuda, 1}};
    a.devices = {{device_kind::cuda, 0}, {}, {device_kind::cuda, 1}};
    return a;
  }

  caf::actor recorder_into(std::stringbuf& file, const assembly& a) {
    return messaging::spawn<recorder>(
        system_.actors(), recorder_options{std::make_shared<recording_writer>(
                                               std::make_unique<std::ostream>(&file), "memory",
                                               recording_header{a.workers, a.shards, {}, {}, a.slots}),
                                           [](const std::string& failure) { EXPECT_EQ(failure, ""); }});
  }

  /// The recording is whole, and has an entry for each gradient that a shard has judged, but for an update
  /// that failed.
  void expect_recorded(const assembled_run& run, const remains& left, const std::stringbuf& file) {
    messaging::send_anonymously(run.feeder_actor, end_recording{std::make_shared<recording_end>(
                                                      end_of(*left.outcome, *left.report))});
    system_.run();
    const recording order = parse_recording(file.view(), "memory");
    EXPECT_THAT(order.end.why, ::testing::StartsWith(left.outcome->why));
    for (std::size_t i = 0; i < order.entries.size(); ++i) {
      const shard_report& s = left.outcome->shards[i];
      const auto gradients = static_cast<std::uint64_t>(
          std::ranges::count(order.entries[i], order_entry::kind::gradient, &order_entry::what));
      if (!s.values) continue; // it was lost, and its books with it
      EXPECT_LE(gradients, judged_by(s)) << i;
      if (left.outcome->how == run_outcome::ending::completed) {
        EXPECT_EQ(gradients, judged_by(s)) << i;
      }
    }
  }

  /// The checkpoint that runs of a case go on from which resumes.
  const std::shared_ptr<const checkpoint>& begun() {
    if (!begun_) begun_ = run(assembly_of_case(), {}, 1).checkpoints.at(1);
    return begun_;
  }

  /// A shard may be lost as long as no step was trained. A run of threads begins when all have their memory.
  std::uint64_t steps_before() {
    checkpoint_card card;
    if (what().resumes) begun()->part("run")->field("card", card);
    return card.steps;
  }

  /// The run that goes on from the newest checkpoint trains what is left.
  void expect_resumable(const remains& left) {
    if (left.checkpoints.empty()) return;
    assembly a = assembly_of_case();
    a.resume = left.checkpoints.back();
    const remains rest = run(a, {}, 2);
    ASSERT_TRUE(rest.outcome) << rest.refused;
    EXPECT_EQ(rest.outcome->how, run_outcome::ending::completed) << rest.outcome->why;
    if (a.local_steps > 0) return; // those that were not pushed are lost
    EXPECT_EQ(rest.report->steps, a.batches);
    EXPECT_EQ(rest.report->samples, a.batches * a.batch);
  }

  /// A run that says that it is complete has each update. After switches their number depends on the order,
  /// and under ringleader, whose updates take what has come.
  void expect_all_trained(const remains& left, const remains& whole) {
    const assembly a = assembly_of_case();
    EXPECT_EQ(left.report->steps, a.batches);
    EXPECT_EQ(left.report->samples, a.batches * a.batch);
    EXPECT_EQ(left.weights.size(), whole.weights.size());
    if (a.policy.find(',') != std::string::npos || a.policy == "ringleader") return;
    for (std::size_t i = 0; i < whole.outcome->shards.size(); ++i)
      EXPECT_EQ(left.outcome->shards[i].version.value, whole.outcome->shards[i].version.value) << i;
  }

  /// The weights that one worker leaves behind are those of a run that ends with as many updates.
  void expect_weights_of_versions(const remains& left) {
    if (!what().alone || left.weights.empty()) return;
    std::size_t at = 0;
    for (const shard_report& s : left.outcome->shards) {
      const std::vector<float>& expected = weights_after(s.version.value);
      for (std::size_t i = 0; i < s.values.size() && !expected.empty(); ++i)
        EXPECT_NEAR(s.values.on_host()[i], expected[at + i], 1e-5) << "version " << s.version.value;
      at += s.values.size();
    }
  }
  /// Empty for no update.
  const std::vector<float>& weights_after(std::uint64_t updates) {
    std::vector<float>& known = after_[updates];
    if (!known.empty() || updates == 0) return known;
    assembly a = assembly_of_case();
    a.batches = updates;
    return known = run(a, {}, 1).weights;
  }

  static void take(const assembled_run& run, remains& left) {
    EXPECT_EQ(run.times_ended(), 1U) << run.waits();
    if (run.times_ended() != 1) return;
    expect_balanced(run);
    left.outcome = run.outcome();
    left.report = report_of(run.outcome(), run.written());
    const auto is_there = [](const shard_report& s) { return static_cast<bool>(s.values); };
    if (std::ranges::all_of(left.outcome->shards, is_there)) left.weights = run.weights();
  }

private:
  std::map<std::uint64_t, std::vector<float>> after_; ///< by the number of updates
  std::shared_ptr<const checkpoint> begun_;
};

inline std::string name_of_fault(const ::testing::TestParamInfo<std::tuple<fault_case, fault_kind>>& info) {
  return std::string(std::get<0>(info.param).name) + std::get<1>(info.param).name;
}

} // namespace mailgrad::testing
