#pragma once

#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/worker/stage_actor.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

namespace mailgrad::testing {

/// Two stages of the small model, and a worker that the test plays.
class StageActor : public DeterministicTest {
protected:
  using worker = listener<step_computed, stage_failed>;

  StageActor() {
    request_.sample_dims = data_->train.sample_dims();
    request_.classes = data_->train.classes();
    request_.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 1}};
    layout_ = std::make_shared<parameter_layout>(lay_out(pipelined(small_model()), request_, 1));
    weights_ = first_values(*layout_, 5);
  }

  void begin(std::size_t credits = 2, bool sums_apart = false,
             const model_function& model = pipelined(small_model())) {
    for (std::size_t p = 0; p < 2; ++p)
      stages_.push_back(start<stage_actor>(
          stage_actor_options{p, request_.devices, model, request_, layout_, credits, clock_, sums_apart}));
  }

  /// A step over batches of these sizes.
  std::shared_ptr<step_work> work_of(std::uint64_t step, const std::vector<std::size_t>& sizes) {
    auto work = std::make_shared<step_work>();
    work->step = step;
    work->weights = {{weights_.data(), nullptr}};
    work->into = make_gradient(*layout_);
    work->stages = stages_;
    const std::size_t all = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    std::size_t first = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      work->micro_batches.push_back({samples(first, sizes[i]),
                                     static_cast<float>(sizes[i]) / static_cast<float>(all),
                                     sizes.size() == 1, i, i});
      first += sizes[i];
    }
    return work;
  }
  std::shared_ptr<batch> samples(std::size_t first, std::size_t count) const {
    auto b = std::make_shared<batch>();
    shape_batch(data_->train, count, request_.nonzeros, *b);
    std::vector<std::uint32_t> which(count);
    std::iota(which.begin(), which.end(), static_cast<std::uint32_t>(first));
    fill_batch(data_->train, which, *b);
    return b;
  }

  /// Tells the stages of the step in the given order, and returns the loss of all.
  float loss_of(const std::shared_ptr<const step_work>& work, bool second_first = false) {
    std::vector<worker> heard;
    for (const std::size_t i : {0U, 1U}) {
      heard.push_back(
          ask<step_computed, stage_failed>(stages_[second_first ? 1 - i : i], compute_step{work, nullptr}));
      if (i > 0) continue;
      EXPECT_THAT(heard[0].heard<step_computed>(), ::testing::IsEmpty())
          << "it needs the values of the other";
    }
    float loss = 0;
    for (worker& w : heard) {
      EXPECT_THAT(w.heard<stage_failed>(), ::testing::IsEmpty());
      EXPECT_THAT(w.heard<step_computed>(), ::testing::SizeIs(1));
      for (const step_computed& x : w.heard<step_computed>()) {
        EXPECT_EQ(x.step, work->step);
        loss += x.sum.loss;
      }
    }
    return loss;
  }

  float loss_of_one_replica(std::size_t count, gradient& out, const model_function& model = small_model()) {
    model_request request = request_;
    request.devices = {request_.devices[0]};
    replica whole(model, request, layout_);
    for (std::uint32_t s = 0; s < layout_->shard_count(); ++s)
      whole.use_weights(s, weights_.data() + layout_->shard(s).begin);
    const std::shared_ptr<gradient> g = whole.make_gradient();
    whole.begin_step(samples(0, count), g);
    out.dense = memory(block(g->dense.bytes()));
    std::ranges::copy(g->dense.on_host<float>(), out.dense.on_host<float>().begin());
    return whole.end_step();
  }

  std::shared_ptr<const data_split> data_ = small_data();
  model_request request_;
  std::shared_ptr<const parameter_layout> layout_;
  std::vector<float> weights_;
  std::vector<caf::actor> stages_;
  std::shared_ptr<const time_source> clock_ = time_;
};

} // namespace mailgrad::testing
