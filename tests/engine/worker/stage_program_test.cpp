#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>

#include <mailgrad/engine/model/weight_addresses.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/engine/worker/stage_program.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>

#include <gmock/gmock.h>

#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using testing::small_data;
using testing::small_model;

const std::vector<device> two{{device_kind::cpu, 0}, {device_kind::cpu, 1}};

/// Two stages of the small model, which the test runs by hand, segment by segment.
class StageProgram : public ::testing::Test {
protected:
  StageProgram() {
    request_.sample_dims = data_->train.sample_dims();
    request_.classes = data_->train.classes();
    request_.batch = 6;
    request_.devices = two;
    layout_ = std::make_shared<parameter_layout>(lay_out(model_, request_, 1));
    weights_ = testing::first_values(*layout_, 5);
  }

  std::shared_ptr<batch> samples(std::size_t first, std::size_t count) const {
    auto b = std::make_shared<batch>();
    shape_batch(data_->train, count, 0, *b);
    std::vector<std::uint32_t> which(count);
    std::iota(which.begin(), which.end(), static_cast<std::uint32_t>(first));
    fill_batch(data_->train, which, *b);
    return b;
  }

  std::deque<stage_program> stages(std::size_t micro_batch) {
    model_request request = request_;
    request.batch = micro_batch;
    std::deque<stage_program> all;
    for (const device d : two) all.emplace_back(model_, request, *layout_, d);
    return all;
  }

  /// Runs all segments of one micro-batch in their order.
  void run(std::deque<stage_program>& all, const micro_batch& m, stage_sum& sum) {
    weight_addresses addresses(*layout_);
    addresses.use(0, weights_.data());
    std::map<std::size_t, std::shared_ptr<value_set>> made;
    for (std::size_t number = 0; number < all[0].parts().size() + all[1].parts().size(); ++number)
      for (stage_program& stage : all)
        for (std::size_t i = 0; i < stage.parts().size(); ++i) {
          if (stage.parts()[i].number != number) continue;
          std::vector<const value_set*> read;
          for (const std::size_t from : stage.parts()[i].reads) read.push_back(made.at(from).get());
          made[number] = stage.make_values(i);
          stage.run(i, m, addresses, read, *made[number], sum);
        }
  }

  stage_sum new_sum() const {
    stage_sum sum;
    sum.into = make_gradient(*layout_);
    sum.begun.resize(layout_->variables().size());
    sum.memory = std::make_shared<row_memory>();
    return sum;
  }

  /// What one replica computes of the same batch.
  std::pair<float, std::vector<float>> by_one_replica() {
    model_request request = request_;
    request.devices = {two[0]};
    replica whole(small_model(), request, layout_);
    whole.use_weights(0, weights_.data());
    const auto g = whole.make_gradient();
    whole.begin_step(samples(0, request_.batch), g);
    const auto values = g->dense.as<float>();
    return {whole.end_step(), {values.begin(), values.end()}};
  }

  const std::shared_ptr<const data_split> data_ = small_data();
  const model_function model_ = pipelined(small_model());
  model_request request_;
  std::shared_ptr<const parameter_layout> layout_;
  std::vector<float> weights_;
};

TEST_F(StageProgram, ComputesWithOthersWhatOneReplicaComputes) {
  auto all = stages(request_.batch);
  stage_sum sum = new_sum();
  run(all, {samples(0, request_.batch)}, sum);
  const auto [loss, values] = by_one_replica();
  EXPECT_EQ(sum.loss, loss);
  EXPECT_THAT(sum.into->dense.as<float>(), ElementsAreArray(values));
}

TEST_F(StageProgram, CountsAMicroBatchInProportionToItsSamples) {
  stage_sum sum = new_sum();
  auto large = stages(4);
  run(large, {samples(0, 4), 4.0F / 6, false, 0, 0}, sum);
  auto small = stages(2);
  run(small, {samples(4, 2), 2.0F / 6, false, 1, 0}, sum);
  const auto [loss, values] = by_one_replica();
  EXPECT_NEAR(sum.loss, loss, 1e-6);
  const auto found = sum.into->dense.as<float>();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(found[i], values[i], 1e-6) << i;
}

TEST_F(StageProgram, SaysWhoReadsWhatItComputes) {
  const auto all = stages(request_.batch);
  ASSERT_FALSE(all[0].parts().empty());
  ASSERT_FALSE(all[1].parts().empty());
  const stage_program::part& forward = all[0].parts().front();
  EXPECT_EQ(forward.number, 0U);
  EXPECT_THAT(forward.reads, IsEmpty());
  EXPECT_THAT(forward.readers, ElementsAre(two[1]));
  EXPECT_EQ(all[1].readers_of(0), 1U);
  EXPECT_EQ(all[1].maker_of(0), two[0]);
  std::vector<std::size_t> delivered;
  for (const stage_program& stage : all)
    for (const stage_program::delivery& d : stage.delivered()) delivered.push_back(d.variable);
  std::ranges::sort(delivered);
  std::vector<std::size_t> every(layout_->variables().size());
  std::iota(every.begin(), every.end(), 0U);
  EXPECT_EQ(delivered, every) << "each variable has one stage";
}

} // namespace
} // namespace mailgrad
