#pragma once

#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/worker/gpu_replica.hpp>
#include <mailgrad/engine/worker/replica.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <optional>

namespace mailgrad::testing {

/// A watch that asks only when the test lets it.
class asked_watch final : public event_watch {
public:
  void when_passed(device_event m, notice tell) override {
    watched_.emplace_back(std::move(m), std::move(tell));
  }

  /// Asks each event once. Returns how many have passed, or never will.
  std::size_t ask() {
    return std::erase_if(watched_, [](const auto& w) {
      std::exception_ptr why;
      try {
        if (!w.first.passed()) return false;
      } catch (...) {
        why = std::current_exception();
      }
      w.second(why);
      return true;
    });
  }
  /// Asks the event that was given last. Returns whether it has passed.
  bool ask_last() {
    if (!watched_.back().first.passed()) return false;
    const auto last = std::move(watched_.back());
    watched_.pop_back();
    last.second(nullptr);
    return true;
  }
  std::size_t watched() const { return watched_.size(); }

private:
  std::vector<std::pair<device_event, notice>> watched_;
};

/// The same model on a GPU and on the host, with two shards.
class gpu_replica_test : public ::testing::Test {
protected:
  void SetUp() override { MAILGRAD_NEEDS_GPU(); }

  void build(const model_function& model = small_model(),
             const std::shared_ptr<const data_split>& data = small_data(),
             std::size_t graphs = cuda::kept_graphs::most_kept) {
    make_replicas(model, data, 2, weight_place::host, graphs);
    for (std::uint32_t s = 0; s < 2; ++s) use_weights(s);
  }
  /// Both, whose weights are still to be given.
  void make_replicas(const model_function& model, const std::shared_ptr<const data_split>& data,
                     std::size_t shards, const weight_places& where,
                     std::size_t graphs = cuda::kept_graphs::most_kept) {
    data_ = data;
    model_request request = request_for(*data, 8);
    layout_ = std::make_shared<parameter_layout>(lay_out(model, request, shards));
    weights_ = first_values(*layout_, 5);
    on_host_.emplace(model, request, layout_);
    request.devices = {{device_kind::cuda, 0}};
    on_gpu_.emplace(model, request, layout_, watch_, where, product_precision::float32, graphs);
    on_gpu_->on_end([this] { ++ended_; });
  }
  void use_weights(std::uint32_t shard) {
    const float* const first = weights_.data() + layout_->shard(shard).begin;
    on_host_->use_weights(shard, first);
    on_gpu_->use_host_weights(shard, first, nullptr);
  }

  std::shared_ptr<batch> samples(std::uint32_t first, std::size_t count, std::uint64_t number = 0) const {
    return batch_of(data_->train, first, count, number);
  }

  struct result {
    float loss;
    std::vector<float> gradient;
  };
  /// The dense gradient, then that of each list of rows: their numbers and values.
  static result result_of(float loss, const gradient& g) {
    const auto values = g.dense.on_host<float>();
    result found{loss, {values.begin(), values.end()}};
    for (const gradient_rows& part : g.sparse) {
      const gradient_rows listed = listed_rows(part);
      for (const std::int32_t row : listed.rows) found.gradient.push_back(static_cast<float>(row));
      found.gradient.insert(found.gradient.end(), listed.values.begin(), listed.values.end());
    }
    return found;
  }
  result host_step(const std::shared_ptr<const batch>& b) {
    const auto g = on_host_->make_gradient();
    on_host_->begin_step(b, g);
    return result_of(on_host_->end_step(), *g);
  }
  /// Asks until the step has ended.
  void await_end() {
    const auto begun = std::chrono::steady_clock::now();
    while (watch_->ask() == 0) ASSERT_LT(std::chrono::steady_clock::now() - begun, std::chrono::minutes(1));
  }
  result gpu_step(const std::shared_ptr<const batch>& b) {
    const auto g = on_gpu_->make_gradient();
    EXPECT_EQ(on_gpu_->begin_step(b, g), step_state::under_way);
    await_end();
    return result_of(on_gpu_->end_step(), *g);
  }
  /// Computes `b` while the replica is told of the next batch.
  result foreseeing_step(const std::shared_ptr<const batch>& b, const std::shared_ptr<const batch>& next,
                         const std::function<void()>& copied = {}) {
    const auto g = on_gpu_->make_gradient();
    gradients_.push_back(g);
    EXPECT_EQ(on_gpu_->begin_step(b, g), step_state::under_way);
    on_gpu_->foresee(next, copied);
    await_end();
    return result_of(on_gpu_->end_step(), *g);
  }
  /// Computes each batch while the next one is foreseen.
  std::vector<result> foreseen_steps(const std::vector<std::shared_ptr<const batch>>& batches) {
    std::vector<result> all;
    for (std::size_t i = 0; i < batches.size(); ++i)
      all.push_back(foreseeing_step(batches[i], i + 1 < batches.size() ? batches[i + 1] : nullptr));
    return all;
  }
  void expect_as_on_host(const std::shared_ptr<const batch>& b) { expect_close(gpu_step(b), host_step(b)); }
  void expect_refused_as_by_host(const std::shared_ptr<const batch>& bad) {
    std::string words;
    try {
      host_step(bad);
      FAIL() << "the host takes it";
    } catch (const std::out_of_range& e) {
      words = e.what();
    }
    EXPECT_THAT([&] { gpu_step(bad); }, ::testing::ThrowsMessage<std::out_of_range>(words));
  }
  static void expect_close(const result& found, const result& expected) {
    EXPECT_NEAR(found.loss, expected.loss, 1e-5);
    ASSERT_EQ(found.gradient.size(), expected.gradient.size());
    for (std::size_t i = 0; i < found.gradient.size(); ++i)
      EXPECT_NEAR(found.gradient[i], expected.gradient[i], 1e-6) << "at " << i;
  }

  std::shared_ptr<const data_split> data_;
  std::shared_ptr<const parameter_layout> layout_;
  std::vector<float> weights_;
  std::shared_ptr<asked_watch> watch_ = std::make_shared<asked_watch>();
  int ended_ = 0;
  std::vector<std::shared_ptr<gradient>> gradients_; ///< kept, since a GPU finishes all its work to free one
  std::optional<replica> on_host_;
  std::optional<gpu_replica> on_gpu_;
};

} // namespace mailgrad::testing
