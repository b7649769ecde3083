#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/coordinator.hpp>

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::testing {

/// A coordinator of two workers and two shards, all played by probes.
class Coordinator : public DeterministicTest {
protected:
  using device_probe = listener<give_up, list_wait_reasons>;
  using shard_probe = listener<report_shard, worker_left, list_wait_reasons>;
  using feeder_probe = listener<stop_dealing, worker_left>;

  Coordinator() {
    coordinator_options options;
    options.workers = 2;
    for (const shard_probe& s : shards_) options.shards.push_back(s.actor());
    options.feeder = feeder_.actor();
    options.divergence = {1, 2};
    options.on_end = [this](run_outcome outcome) { outcomes_.push_back(std::move(outcome)); };
    options.on_wait = [this](const wait_reason& w) { waits_.push_back(w.what); };
    coordinator_ = start<coordinator>(std::move(options));
    run();
  }

  void join() {
    for (std::uint32_t r = 0; r < 2; ++r) tell(coordinator_, worker_joined{{r}, devices_[r].actor()});
  }
  static worker_report report_of(std::uint32_t worker, std::uint64_t produced = 5,
                                 float loss = std::numeric_limits<float>::quiet_NaN()) {
    worker_report r;
    r.worker = {worker};
    r.produced = produced;
    r.loss_bits = std::bit_cast<std::uint32_t>(loss);
    return r;
  }
  void finish(std::uint32_t worker) { tell(coordinator_, worker_finished{report_of(worker)}); }
  void kill(const caf::actor& a) {
    messaging::kill(a);
    run();
  }
  void report_shards() {
    for (std::uint32_t s = 0; s < 2; ++s) tell(coordinator_, shard_report{s, 10, {}, {}});
  }
  std::size_t shards_asked() {
    std::size_t asked = 0;
    for (shard_probe& s : shards_) asked += s.heard<report_shard>().size();
    return asked;
  }

  std::vector<run_outcome> outcomes_;
  std::vector<std::string> waits_;
  std::vector<shard_probe> shards_{listen<report_shard, worker_left, list_wait_reasons>(),
                                   listen<report_shard, worker_left, list_wait_reasons>()};
  std::vector<device_probe> devices_{listen<give_up, list_wait_reasons>(),
                                     listen<give_up, list_wait_reasons>()};
  feeder_probe feeder_ = listen<stop_dealing, worker_left>();
  caf::actor coordinator_;
};

} // namespace mailgrad::testing
