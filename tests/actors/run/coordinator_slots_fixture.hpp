#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/coordinator.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::testing {

/// A coordinator of two workers, three slots and two shards, all played by probes.
class CoordinatorSlots : public DeterministicTest {
protected:
  using device_probe = listener<slot_given, give_up, pause_worker, list_wait_reasons, trace_taken>;
  using shard_probe = listener<report_shard, worker_left, tell_trained, switch_policy, list_wait_reasons>;
  using feeder_probe =
      listener<stop_dealing, worker_left, share_lost, deal_again, count_undealt, go_on_dealing>;

  void begin(instant waits = instant{0}, bool elastic = true) {
    coordinator_options options;
    options.workers = 2;
    options.slots = 3;
    options.elastic = elastic;
    options.waits_for_workers = waits;
    options.timelines = reported_timelines(instant{0}, 100);
    if (steps_before_ > 0) options.resumed = kept_schedule{"async"};
    options.steps_before = steps_before_;
    options.time = time_;
    for (const shard_probe& s : shards_) options.shards.push_back(s.actor());
    options.feeder = feeder_.actor();
    options.on_end = [this](run_outcome outcome) { outcomes_.push_back(std::move(outcome)); };
    options.on_wait = [this](const wait_reason& w) { waits_.push_back(w.what); };
    coordinator_ = start<coordinator>(std::move(options));
    for (std::uint32_t r = 0; r < 2; ++r) tell(coordinator_, worker_joined{{r}, devices_[r].actor()});
  }

  device_probe new_device() {
    return listen<slot_given, give_up, pause_worker, list_wait_reasons, trace_taken>();
  }
  /// A device tells a piece with one event.
  void tell_trace(std::uint32_t worker, std::uint32_t incarnation, const device_probe& device) {
    trace_piece piece{"cpu:0", time_->now().count(), {}, 0, {{trace_kind::compute, 1, 1}}};
    messaging::send_as(device.actor(), coordinator_,
                       caf::make_message(trace_reported{{worker}, {incarnation}, piece}));
    run();
  }
  void join_late(std::uint32_t worker, std::uint32_t incarnation, const device_probe& device) {
    tell(coordinator_, worker_joined{{worker}, device.actor(), {incarnation}, true});
  }
  void lose(std::uint32_t worker) {
    messaging::kill(devices_[worker].actor());
    run();
  }
  /// Both shards answer what they took of a lost worker.
  void answer(std::uint32_t worker, std::uint32_t incarnation, std::uint64_t first, std::uint64_t second) {
    tell(coordinator_, trained_reported{{0}, {worker}, {incarnation}, first, first, first * 8});
    tell(coordinator_, trained_reported{{1}, {worker}, {incarnation}, second, second, second * 8});
    tell(coordinator_, share_ended{{worker}, {incarnation}, 0, 1});
  }
  void finish(std::uint32_t worker, std::uint32_t incarnation = 0, std::uint64_t steps = 5,
              const std::string& why_left = {}) {
    worker_report r;
    r.worker = {worker};
    r.steps = r.produced = steps;
    tell(coordinator_, worker_finished{r, {incarnation}, why_left});
  }
  /// The process of a shard has lost its connection with a worker.
  void part(std::uint32_t shard, std::uint32_t worker, std::uint32_t incarnation = 0) {
    messaging::send_as(shards_[shard].actor(), coordinator_,
                       caf::make_message(worker_left{{worker}, {incarnation}}));
    run();
  }
  void report_shards() {
    for (std::uint32_t s = 0; s < 2; ++s) tell(coordinator_, shard_report{s, 10, {}, {}});
  }

  std::uint64_t steps_before_ = 0; ///< of other workers, if the run goes on from a checkpoint
  std::vector<run_outcome> outcomes_;
  std::vector<std::string> waits_;
  std::array<shard_probe, 2> shards_{
      listen<report_shard, worker_left, tell_trained, switch_policy, list_wait_reasons>(),
      listen<report_shard, worker_left, tell_trained, switch_policy, list_wait_reasons>()};
  std::array<device_probe, 2> devices_{new_device(), new_device()};
  feeder_probe feeder_ =
      listen<stop_dealing, worker_left, share_lost, deal_again, count_undealt, go_on_dealing>();
  caf::actor coordinator_;
};

} // namespace mailgrad::testing
