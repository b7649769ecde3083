#pragma once

#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/engine/worker/late_runner.hpp>
#include <mailgrad/tests/net/played_sums.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/worker/device_actor.hpp>
#include <mailgrad/engine/worker/replica.hpp>

#include <exception>
#include <numeric>

namespace mailgrad::testing {

/// A device actor between two shards, a feeder and a coordinator that are all played by probes.
class DeviceActor : public DeterministicTest {
protected:
  void begin(double clip_norm = 0, bool hogwild = false) {
    model_request request;
    request.sample_dims = data_->train.sample_dims();
    request.classes = data_->train.classes();
    layout_ = std::make_shared<parameter_layout>(lay_out(small_model(), request, hogwild ? 1 : 2));
    device_actor_options options;
    options.terms.worker = {3};
    const model_function model = [why = why_unlucky_](graph& g, const model_request& r) {
      if (r.batch == unlucky_batch) std::rethrow_exception(why);
      return small_model()(g, r);
    };
    options.runner = std::make_shared<replica>(model, request, layout_);
    if (wrap_) options.runner = wrap_(options.runner);
    if (late_) options.runner = std::make_shared<late_runner>(options.runner, *late_);
    runner_ = options.runner;
    if (hogwild) {
      store_ = std::make_shared<hogwild_store>(first_values(*layout_, 1));
      options.writer = std::make_shared<hogwild_writer>(*layout_, store_, sgd(0.1));
      options.direct = true;
      options.shard_begins = {0};
    } else {
      for (const auto& s : shards_) options.peers.shards.push_back(s.actor());
    }
    options.trace = std::move(trace_);
    options.tells_trace = tells_trace_;
    options.sums = std::move(sums_);
    options.terms.keeps_end = keeps_end_;
    options.ends_with_gpu = ends_with_gpu_;
    options.terms.late = incarnation_ > 0;
    options.terms.incarnation = {incarnation_};
    options.terms.clip_norm = clip_norm;
    options.peers.feeder = feeder_.actor();
    options.peers.tracker = tracker_.actor();
    options.peers.coordinator = coordinator_.actor();
    options.time = time_;
    device_ = start<device_actor>(std::move(options));
    run();
  }

  void give_weights(std::uint32_t shard, std::uint64_t version, instant waited = instant{0}) {
    auto values = std::make_shared<memory>(block(layout_->shard(shard).size() * sizeof(float)));
    layout_->initialise_shard(shard, 1, values->on_host<float>());
    given_.push_back(values);
    tell(device_, shard_weights{{{shard}, {version}, {}, stay_at_shard{0, waited.count(), 0, waited.count()}},
                                {snapshot(std::move(values))}});
  }
  void give_all_weights(std::uint64_t version) {
    give_weights(0, version);
    give_weights(1, version);
  }
  void give_batch(std::size_t size = 4, float first_feature = 0) {
    auto b = std::make_shared<batch>();
    shape_batch(data_->train, size, 0, *b);
    std::vector<std::uint32_t> which(size);
    std::iota(which.begin(), which.end(), 0U);
    fill_batch(data_->train, which, *b);
    b->features.values()[0] += first_feature;
    tell(device_, dealt_batch{std::move(b)});
  }
  void begin_step(std::uint64_t version = 0, std::size_t size = 4) {
    give_all_weights(version);
    give_batch(size);
  }
  void begin_with_a_step(std::size_t size = 4) {
    begin();
    begin_step(0, size);
  }
  void end_a_late_step() {
    ASSERT_TRUE(late_->end_one());
    run();
  }
  std::vector<push_gradient>& pushed_to(std::size_t shard) { return shards_[shard].heard<push_gradient>(); }
  std::size_t batches_asked_for() { return feeder_.heard<next_batch>().size(); }
  std::size_t reports() { return coordinator_.heard<worker_finished>().size(); }
  worker_report finished() { return only(coordinator_.heard<worker_finished>()).report; }
  /// Of a worker that is told that there are no more batches, and then gets its last weights.
  worker_report finished_at(std::uint64_t version) {
    tell(device_, data_exhausted{});
    give_all_weights(version);
    return finished();
  }
  std::vector<wait_reason> waits() {
    return ask<wait_reason>(device_, list_wait_reasons{}).heard<wait_reason>();
  }
  std::size_t parts() { return coordinator_.heard<checkpoint_part>().size(); }
  /// The report of the n-th part of a checkpoint.
  worker_report kept(std::size_t n) {
    worker_report report;
    const saved_fields& fields = *coordinator_.heard<checkpoint_part>().at(n).fields;
    saved_fields(fields.text(), fields.arrays()).field("report", report);
    return report;
  }

  static constexpr std::size_t unlucky_batch = 5;
  std::exception_ptr why_unlucky_ = std::make_exception_ptr(graph_error("dense1: no memory for it"));
  bool ends_with_gpu_ = false; ///< it is lost with the GPU on which it computes
  using shard_probe = listener<join_shard, push_gradient, worker_left, checkpoint_marker, predict_verdict>;
  const std::shared_ptr<const data_split> data_ = small_data();
  std::shared_ptr<const parameter_layout> layout_;
  std::shared_ptr<hogwild_store> store_;
  std::function<std::shared_ptr<step_runner>(std::shared_ptr<step_runner>)> wrap_{};
  std::optional<late_steps> late_; ///< steps end when the test says so, if there is one
  shard_probe new_shard() {
    return listen<join_shard, push_gradient, worker_left, checkpoint_marker, predict_verdict>();
  }
  std::vector<shard_probe> shards_{new_shard(), new_shard()};
  std::weak_ptr<step_runner> runner_;    ///< lives as long as the actor
  std::shared_ptr<trace_track> trace_{}; ///< none unless a test asks for one
  std::string tells_trace_{};
  bool keeps_end_ = false;                  ///< it asks for the checkpoint of its end
  std::uint32_t incarnation_ = 0;           ///< a later one joins late
  std::shared_ptr<net::all_reduce> sums_{}; ///< with other workers, if there are any
  listener<next_batch, worker_left, deal_again, worker_marked> feeder_ =
      listen<next_batch, worker_left, deal_again, worker_marked>();
  listener<worker_progress, staleness_observed> tracker_ = listen<worker_progress, staleness_observed>();
  listener<worker_joined, worker_finished, loss_diverged, worker_failed, worker_paused, worker_progress,
           trace_reported, checkpoint_part, worker_at_end>
      coordinator_ = listen<worker_joined, worker_finished, loss_diverged, worker_failed, worker_paused,
                            worker_progress, trace_reported, checkpoint_part, worker_at_end>();
  caf::actor device_;
  std::vector<std::weak_ptr<memory>> given_;
};

} // namespace mailgrad::testing
