#include <mailgrad/engine/account/gradient_ledger.hpp>
#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/engine/worker/step_runner.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/noting_operation.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace mailgrad {
namespace {

using testing::dense_gradient;
using testing::first_values;
using testing::small_data;
using testing::small_model;
using testing::sparse_data;

/// A replica of a model over one shard, whose weights the test may move.
class Replica : public ::testing::Test {
protected:
  void build(const std::shared_ptr<const data_split>& data, const model_function& model = small_model()) {
    data_ = data;
    const model_request request = request_for(*data, batch_size);
    layout_ = std::make_shared<parameter_layout>(lay_out(model, request, 1));
    weights_ = first_values(*layout_, 5);
    replica_.emplace(model, request, layout_);
    replica_->use_weights(0, weights_.data());
  }

  std::shared_ptr<batch> samples(std::uint32_t first, std::size_t count, std::uint64_t number = 0) const {
    return testing::batch_of(data_->train, first, count, number);
  }

  float loss_of(const std::shared_ptr<const batch>& b, const std::shared_ptr<gradient>& g) {
    EXPECT_EQ(replica_->begin_step(b, g), step_state::finished) << "the host computes at once";
    return replica_->end_step();
  }
  float loss_of(const std::shared_ptr<const batch>& b) { return loss_of(b, replica_->make_gradient()); }

  /// (loss(w + h) - loss(w - h)) / 2h for one weight.
  double central_difference(const std::shared_ptr<const batch>& b, std::size_t weight) {
    constexpr float h = 1e-2F;
    const float was = weights_[weight];
    weights_[weight] = was + h;
    const double above = loss_of(b);
    weights_[weight] = was - h;
    const double below = loss_of(b);
    weights_[weight] = was;
    return (above - below) / (2 * static_cast<double>(h));
  }

  static constexpr std::size_t batch_size = 8;
  std::shared_ptr<const data_split> data_;
  std::shared_ptr<const parameter_layout> layout_;
  std::vector<float> weights_;
  std::optional<replica> replica_;
};

TEST_F(Replica, ComputesTheGradientOfItsLoss) {
  build(small_data());
  const auto b = samples(0, batch_size);
  const auto g = replica_->make_gradient();
  const float loss = loss_of(b, g);
  EXPECT_GT(loss, 0.0F);
  for (const placed_variable& v : layout_->variables())
    for (std::size_t i = 0; i < v.dims.size(); ++i)
      EXPECT_NEAR(g->dense.on_host<float>()[v.offset + i], central_difference(b, v.offset + i), 2e-3)
          << v.name << '[' << i << ']';
}

TEST_F(Replica, TakesAShortBatchForWhatItIs) {
  build(small_data());
  const auto whole = replica_->make_gradient(), first = replica_->make_gradient(),
             rest = replica_->make_gradient(), again = replica_->make_gradient();
  const auto values_of = [](const std::shared_ptr<const gradient>& g) { return g->dense.on_host<float>(); };
  const float loss = loss_of(samples(0, 8), whole);
  const float first_loss = loss_of(samples(0, 5), first);
  const float rest_loss = loss_of(samples(5, 3), rest);
  EXPECT_NEAR(loss, (5 * first_loss + 3 * rest_loss) / 8, 1e-5);
  for (std::size_t i = 0; i < layout_->dense_size(); ++i)
    EXPECT_NEAR(values_of(whole)[i], (5 * values_of(first)[i] + 3 * values_of(rest)[i]) / 8, 1e-5);
  loss_of(samples(0, 8), again);
  EXPECT_TRUE(std::ranges::equal(values_of(again), values_of(whole))) << "the same bits";
}

TEST_F(Replica, ReadsTheWeightsWhereTheyLie) {
  build(small_data());
  const auto b = samples(0, batch_size);
  const float before = loss_of(b);
  std::ranges::fill(weights_, 0.0F);
  EXPECT_NE(loss_of(b), before);
  EXPECT_NEAR(loss_of(b), std::log(3.0), 1e-5) << "all classes are as likely";
}

TEST_F(Replica, ComputesTheRowsOfASparseGradient) {
  build(sparse_data());
  const auto b = samples(0, batch_size);
  const auto g = replica_->make_gradient();
  loss_of(b, g);
  ASSERT_EQ(g->sparse.size(), 1U);
  const gradient_rows& part = g->sparse[0];
  const placed_variable& table = layout_->variables()[part.variable];
  ASSERT_TRUE(table.sparse);
  std::vector<float> dense(table.dims.size());
  for (std::size_t j = 0; j < part.rows.size() && part.rows[j] >= 0; ++j)
    for (std::size_t c = 0; c < part.width; ++c)
      dense[static_cast<std::size_t>(part.rows[j]) * part.width + c] += part.values[j * part.width + c];
  for (std::size_t i = 0; i < dense.size(); ++i)
    EXPECT_NEAR(dense[i], central_difference(b, table.offset + i), 2e-3) << i;
}

TEST_F(Replica, TellsKernelsThatGradientsAreReadLater) {
  const auto notes = std::make_shared<std::vector<next_use>>();
  build(small_data(), [notes](graph& g, const model_request& request) {
    const model_outputs made = small_model()(g, request);
    const value extra = g.variable("extra", {2}, initialiser{});
    const auto op = std::make_shared<test::noting_operation>(notes);
    const value noted = g.apply_one(op, {extra}, std::source_location::current());
    return model_outputs{made.logits, made.loss + reduce_mean(noted)};
  });
  loss_of(samples(0, batch_size));
  EXPECT_EQ(*notes, (std::vector{next_use::soon, next_use::later})) << "forward and backward";
}

TEST_F(Replica, PointsIntoTheBatchForItsRowsAndKeepsItAlive) {
  build(sparse_data());
  auto b = samples(0, batch_size);
  const std::span<const std::int32_t> columns = b->columns.values<std::int32_t>();
  const auto g = replica_->make_gradient();
  loss_of(b, g);
  EXPECT_EQ(g->sparse.at(0).rows.data(), columns.data());
  EXPECT_EQ(g->source, b);
  b.reset();
  EXPECT_EQ(g->source.use_count(), 1);
}

TEST_F(Replica, DrawsDropoutFromTheNumberOfTheBatch) {
  build(small_data(), [](graph& g, const model_request& request) {
    return build_classifier(g, {dense_layer{8, activation::tanh}, dropout_layer{0.5F}, dense_layer{}},
                            request);
  });
  const float first = loss_of(samples(0, batch_size, 1));
  EXPECT_NE(loss_of(samples(0, batch_size, 2)), first);
  EXPECT_EQ(loss_of(samples(0, batch_size, 1)), first);
}

TEST_F(Replica, RefusesAModelThatTheLayoutDoesNotFit) {
  build(small_data());
  model_request request = request_for(*data_, batch_size);
  request.sample_dims = {testing::small_features + 1};
  replica other(small_model(), request, layout_);
  other.use_weights(0, weights_.data());
  const auto g = other.make_gradient();
  EXPECT_THROW(other.begin_step(samples(0, 4), g), graph_error);
}

std::shared_ptr<gradient> of(const std::vector<float>& values) { return dense_gradient(values); }

TEST(Cosine, IsThatOfTheAngleIfThereIsOne) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto g = of(testing::random_values(37, seed));
    EXPECT_EQ(cosine(*g, *g), 1.0) << "exactly";
  }
  EXPECT_EQ(cosine(*of({1, 0}), *of({0, 5})), 0.0);
  EXPECT_EQ(cosine(*of({2, 0}), *of({-3, 0})), -1.0);
  EXPECT_NEAR(cosine(*of({1, 0}), *of({7, 7})).value(), std::sqrt(0.5), 1e-12);
  EXPECT_FALSE(cosine(*of({0, 0}), *of({1, 2})));
  EXPECT_FALSE(cosine(*of({1, 2}), *of({std::numeric_limits<float>::quiet_NaN(), 1})));
  EXPECT_FALSE(cosine(*of({1, 2}), *of({std::numeric_limits<float>::infinity(), 1})));
}

TEST(Cosine, CountsTheRowsOfTables) {
  const auto a = of({3});
  const auto b = of({3});
  testing::add_rows(*a, 1, 2, {4, 7, -1}, {1, 2, 3, 4, 99, 99});
  testing::add_rows(*b, 1, 2, {4, 7, -1}, {1, 2, -3, -4, -1, -1});
  EXPECT_EQ(cosine(*a, *a), 1.0);
  EXPECT_NEAR(cosine(*a, *b).value(), (9 + 5 - 25) / 39.0, 1e-12)
      << "what follows the end of a list is not read";
  const auto c = of({3});
  testing::add_rows(*c, 1, 2, {4, 8, -1}, {1, 2, 3, 4, 0, 0});
  EXPECT_FALSE(cosine(*a, *c)) << "other rows";
}

TEST(Cosine, CountsWhatFurtherDevicesAddToAllOfAGradient) {
  const auto sum = of({1, 2});
  sum->addends.emplace_back();
  sum->addends[0].values = block(sum->dense.bytes()); // covers all of it, since nothing says otherwise
  std::ranges::copy(of({3, -2})->dense.on_host<float>(), sum->addends[0].values.as<float>().begin());
  EXPECT_EQ(cosine(*sum, *of({4, 0})), 1.0);
}

TEST(GradientComparison, WaitsForTheWeightsThatTheGradientMetOnEveryShard) {
  gradient_comparison c(2);
  const snapshot weights(std::make_shared<memory>(block(64)));
  EXPECT_FALSE(c.ready());
  c.take({0}, {3}, weights);
  EXPECT_FALSE(c.ready()) << "of what nobody asked for";
  c.begin({3}, of({1, 2}));
  c.take({0}, {3}, weights);
  c.take({0}, {3}, weights);
  EXPECT_FALSE(c.ready()) << "shard 1 has not said";
  c.take({1}, {2}, weights);
  EXPECT_FALSE(c.ready()) << "that is of an older gradient";
  c.take({1}, {3}, weights);
  ASSERT_TRUE(c.ready());
  EXPECT_EQ(c.step(), step_number{3});
  c.forget();
  EXPECT_FALSE(c.ready());
}

TEST(GradientComparison, ForgetsWhatIsOvertaken) {
  gradient_comparison c(1);
  const auto first = of({1, 2});
  c.begin({1}, first);
  c.begin({2}, of({1, 2}));
  EXPECT_EQ(first.use_count(), 1);
  c.take({0}, {1}, snapshot(std::make_shared<memory>(block(64))));
  EXPECT_FALSE(c.ready());
}

TEST(RunningStat, KeepsTheLeastAndTheGreatest) {
  running_stat t;
  EXPECT_TRUE(t.empty());
  for (const double x : {0.5, -1.0, 2.0}) t.add(x);
  running_stat all;
  all.merge({});
  all.merge(t);
  EXPECT_EQ(all.count(), 3U);
  EXPECT_EQ(all.least(), -1.0);
  EXPECT_EQ(all.greatest(), 2.0);
  EXPECT_EQ(all.mean(), 0.5);
}

} // namespace
} // namespace mailgrad
