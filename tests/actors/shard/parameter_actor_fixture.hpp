#pragma once

#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/engine/record/recording.hpp>

namespace mailgrad::testing {

/// One shard of 16 weights with plain SGD, learning rate 1, and a probe for each worker's device.
class ParameterActor : public DeterministicTest {
protected:
  /// `shards`: the shard is the last of so many that share the weights.
  explicit ParameterActor(std::uint32_t shards = 1)
      : index_(shards - 1), layout_(layout_of({{"w", {16 * shards}}}, shards)) {}

  void serve(const std::string& policy, std::uint32_t workers, const std::string& cure = "none") {
    auto weights = queue_ ? std::make_shared<shard>(layout_, index_, 1, sgd(1), queue_)
                          : std::make_shared<shard>(layout_, index_, 1, sgd(1));
    weights->finish(); // a device queue that is late has its first values now
    begin_ = weights->snapshot().on_host()[0];
    parameter_actor_options o{{.weights = std::move(weights),
                               .policy = {policy, workers},
                               .workers = workers,
                               .time = time_,
                               .cure = {cure, workers},
                               .trace = std::make_shared<trace_track>("shard 0", 100, time_->now())},
                              tracker_.actor()};
    o.recorder = recorder_;
    o.replayed = replayed_;
    o.tells_trace_to = tells_trace_to_;
    o.watch = watch_;
    o.timer = timer_;
    o.waits_here = waits_here_;
    o.awaits = awaits_;
    shard_ = start<parameter_actor>(std::move(o));
    devices_.clear();
    for (std::uint32_t r = 0; r < workers; ++r) {
      devices_.push_back(listen<shard_weights>());
      tell(shard_, join_shard{{r}, {}, devices_[r].actor()});
    }
  }

  void push(std::uint32_t worker, std::uint64_t step, std::uint64_t version_read, float value = 1,
            float scale = 1) {
    tell(shard_, push_of(worker, step, version_read, constant_gradient(layout_, value), scale, epoch_));
  }

  void push_as(std::uint32_t incarnation, std::uint32_t worker, std::uint64_t step,
               std::uint64_t version_read) {
    push_gradient x = push_of(worker, step, version_read, constant_gradient(layout_, 1));
    x.header.id.incarnation = {incarnation};
    tell(shard_, x);
  }
  void join(std::uint32_t worker, std::uint32_t incarnation) {
    tell(shard_, join_shard{{worker}, {incarnation}, devices_[worker].actor()});
  }

  std::vector<shard_weights>& weights_of(std::uint32_t worker) {
    return devices_[worker].heard<shard_weights>();
  }
  /// How far the first weight is below where it began.
  float moved(const shard_weights& w) const { return begin_ - w.payload.values.on_host()[0]; }

  std::vector<wait_reason> waits() {
    return ask<wait_reason>(shard_, list_wait_reasons{}).heard<wait_reason>();
  }
  shard_report report() { return ask<shard_report>(shard_, report_shard{}).heard<shard_report>().at(0); }

  /// A shard that is served from now on notes its order.
  void record() { recorder_ = noted_.actor(); }
  /// What it has noted behind its report.
  std::vector<order_entry> entries() {
    report();
    std::vector<order_entry> all;
    for (const order_noted& n : noted_.heard<order_noted>())
      all.insert(all.end(), n.entries.begin(), n.entries.end());
    return all;
  }
  /// The recorded run of so many workers, in the order of one shard.
  void replay(std::uint32_t workers, std::vector<order_entry> entries) {
    recording r;
    r.header.workers = workers;
    r.header.shards = 1;
    r.entries = {std::move(entries)};
    r.batches.resize(workers);
    replayed_ = std::make_shared<const recording>(std::move(r));
  }

  const std::uint32_t index_;
  const parameter_layout layout_;
  listener<order_noted> noted_ = listen<order_noted>();
  listener<staleness_observed> tracker_ = listen<staleness_observed>();
  caf::actor shard_;
  std::vector<listener<shard_weights>> devices_;
  caf::actor recorder_{};                       ///< gets the entries; none unless a test has one
  std::shared_ptr<const recording> replayed_{}; ///< the run to repeat, if there is one
  caf::actor tells_trace_to_{}; ///< a coordinator that is told the timeline; none unless a test has one
  std::shared_ptr<device_queue> queue_{}; ///< of the shard; null: that of the host
  std::shared_ptr<event_watch> watch_{};  ///< tells when events of the queue pass; none if they do at once
  std::shared_ptr<step_timer> timer_{};   ///< for policies that close batches; none unless a test has one
  std::function<std::vector<wait_reason>()> waits_here_{}; ///< of its process; none unless a test has some
  /// Is told whom the shard awaits first; empty unless a test asks.
  std::function<void(std::optional<rank>, version_number)> awaits_{};
  float begin_ = 0;
  std::uint64_t epoch_ = 0; ///< of what is pushed
};

} // namespace mailgrad::testing
