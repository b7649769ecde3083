#pragma once

#include <mailgrad/actors/run/coordinator.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <bit>
#include <limits>

namespace mailgrad::testing {

/// A coordinator of two workers and two shards, all played by probes, of which one plays all the others.
class CoordinatorTest : public DeterministicTest {
protected:
  using device_probe = listener<give_up, list_wait_reasons, slot_given, pause_worker, trace_taken,
                                take_checkpoint, mark_at_end, copy_books>;
  using shard_probe = listener<report_shard, worker_left, list_wait_reasons, tell_trained, switch_policy,
                               take_checkpoint, free_credit, copy_books>;
  using feeder_probe = listener<stop_dealing, worker_left, share_lost, deal_again, count_undealt,
                                go_on_dealing, take_checkpoint, watch_checkpoints, watch_holds, bring_worker>;

  device_probe new_device() {
    return listen<give_up, list_wait_reasons, slot_given, pause_worker, trace_taken, take_checkpoint,
                  mark_at_end, copy_books>();
  }
  shard_probe new_shard() {
    return listen<report_shard, worker_left, list_wait_reasons, tell_trained, switch_policy, take_checkpoint,
                  free_credit, copy_books>();
  }

  /// Starts it as a test changes it.
  void start_coordinator(const std::function<void(coordinator_options&)>& change) {
    coordinator_options o;
    o.workers = 2;
    for (const shard_probe& s : shards_) o.shards.push_back(s.actor());
    o.feeder = feeder_.actor();
    o.time = time_;
    o.on_end = [this](run_outcome outcome) { outcomes_.push_back(std::move(outcome)); };
    o.on_wait = [this](const wait_reason& w) {
      waits_.push_back(w.what);
      span_ = instant{w.span};
    };
    change(o);
    coordinator_ = start<coordinator>(std::move(o));
    run();
  }
  void join(std::uint32_t workers = 2) {
    for (std::uint32_t r = 0; r < workers; ++r) tell(coordinator_, worker_joined{{r}, devices_[r].actor()});
  }
  void join_late(std::uint32_t worker, std::uint32_t incarnation, const device_probe& device) {
    tell(coordinator_, worker_joined{{worker}, device.actor(), {incarnation}, true});
  }
  void kill(const caf::actor& a) {
    messaging::kill(a);
    run();
  }
  void lose(std::uint32_t worker) { kill(devices_[worker].actor()); }

  static worker_report report_of(std::uint32_t worker, std::uint64_t steps = 5,
                                 float loss = std::numeric_limits<float>::quiet_NaN()) {
    worker_report r;
    r.worker = {worker};
    r.steps = r.produced = steps;
    r.loss_bits = std::bit_cast<std::uint32_t>(loss);
    return r;
  }
  void finish(std::uint32_t worker, std::uint32_t incarnation = 0, std::uint64_t steps = 5,
              const std::string& why_left = {}) {
    tell(coordinator_, worker_finished{report_of(worker, steps), {incarnation}, why_left});
  }
  void report_shard_of(std::uint32_t shard, std::uint64_t version = 10) {
    tell(coordinator_, shard_report{shard, version, {}, {}});
  }
  void report_shards() {
    for (std::uint32_t s = 0; s < 2; ++s) report_shard_of(s);
  }
  const run_outcome& outcome() { return only(outcomes_); }
  /// How it ends when these workers finish and the shards report.
  const run_outcome& end(const std::vector<std::uint32_t>& workers = {}) {
    for (const std::uint32_t r : workers) finish(r);
    report_shards();
    return outcome();
  }
  /// What the coordinator itself waits for.
  std::vector<std::string> waits() {
    waits_.clear();
    tell(coordinator_, list_wait_reasons{});
    return waits_;
  }

  std::vector<run_outcome> outcomes_;
  std::vector<std::string> waits_;
  instant span_{0}; ///< of the last of them
  std::vector<shard_probe> shards_{new_shard(), new_shard()};
  std::vector<device_probe> devices_{new_device(), new_device(), new_device()};
  feeder_probe feeder_ =
      listen<stop_dealing, worker_left, share_lost, deal_again, count_undealt, go_on_dealing, take_checkpoint,
             watch_checkpoints, watch_holds, bring_worker>();
  caf::actor coordinator_;
};

} // namespace mailgrad::testing
