#include <mailgrad/engine/account/gradient_ledger.hpp>
#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/engine/worker/stage_program.hpp>
#include <mailgrad/engine/worker/step_runner.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/noting_operation.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

namespace mailgrad {
namespace {

using testing::dense_gradient;
using testing::first_values;
using testing::small_data;
using testing::small_model;
using testing::sparse_data;
using namespace ::testing;

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
  const auto overtaken = of({1, 2});
  c.begin({4}, overtaken);
  c.begin({5}, of({1, 2}));
  EXPECT_EQ(overtaken.use_count(), 1);
  for (const std::uint32_t s : {0U, 1U}) c.take({s}, {4}, weights);
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

const std::vector<device> two{{device_kind::cpu, 0}, {device_kind::cpu, 1}};

/// A model in two stages, which the test runs by hand, segment by segment.
class StageProgram : public ::testing::Test {
protected:
  StageProgram() { use(pipelined(small_model()), small_data(), 6); }
  void use(const model_function& model, std::shared_ptr<const data_split> data, std::size_t batch) {
    data_ = std::move(data);
    model_ = model;
    request_ = request_for(*data_, batch);
    request_.devices = two;
    layout_ = std::make_shared<parameter_layout>(lay_out(model_, request_, 1));
    weights_ = testing::first_values(*layout_, 5);
  }

  std::shared_ptr<batch> samples(std::uint32_t first, std::size_t count) const {
    return testing::batch_of(data_->train, first, count, 0, request_.batch);
  }
  std::deque<stage_program> stages_of(const model_function& model, bool sums_apart = false) const {
    std::deque<stage_program> all;
    for (const device d : two) all.emplace_back(model, request_, *layout_, d, sums_apart);
    return all;
  }
  stage_sum new_sum() const {
    stage_sum sum;
    sum.into = make_gradient(*layout_);
    sum.begun.resize(layout_->variables().size());
    sum.memory = std::make_shared<row_memory>();
    return sum;
  }
  /// Runs all segments of one micro-batch in their order.
  void run(std::deque<stage_program>& all, const micro_batch& m, stage_sum& sum) const {
    weight_addresses weights(*layout_);
    weights.use(0, weights_.data());
    std::map<std::size_t, std::shared_ptr<value_set>> made;
    for (std::size_t number = 0; number < all[0].parts().size() + all[1].parts().size(); ++number)
      for (stage_program& stage : all)
        for (std::size_t i = 0; i < stage.parts().size(); ++i) {
          if (stage.parts()[i].number != number) continue;
          std::vector<const value_set*> read;
          for (const std::size_t from : stage.parts()[i].reads) read.push_back(made.at(from).get());
          made[number] = stage.make_values(i);
          stage.run(i, m, weights, read, *made[number], sum);
        }
  }

  /// What one replica computes of the same batch.
  std::pair<float, std::shared_ptr<gradient>> by_one_replica() {
    model_request request = request_;
    request.devices = {two[0]};
    replica whole(model_, request, layout_);
    whole.use_weights(0, weights_.data());
    const auto g = whole.make_gradient();
    whole.begin_step(samples(0, request_.batch), g);
    return {whole.end_step(), g};
  }

  std::shared_ptr<const data_split> data_;
  model_function model_;
  model_request request_;
  std::shared_ptr<const parameter_layout> layout_;
  std::vector<float> weights_;
};

TEST_F(StageProgram, ComputesWithOthersWhatOneReplicaComputes) {
  auto all = stages_of(model_);
  stage_sum sum = new_sum();
  run(all, {samples(0, request_.batch)}, sum);
  const auto [loss, expected] = by_one_replica();
  EXPECT_EQ(sum.loss, loss);
  EXPECT_THAT(sum.into->dense.on_host<float>(), ElementsAreArray(expected->dense.on_host<float>()));
}

TEST_F(StageProgram, CountsAMicroBatchInProportionToItsSamples) {
  const auto [loss, expected] = by_one_replica();
  const auto of_four = samples(0, 4), of_two = samples(4, 2);
  stage_sum sum = new_sum();
  request_.batch = 4;
  auto large = stages_of(model_);
  run(large, {of_four, 4.0F / 6, false, 0, 0}, sum);
  request_.batch = 2;
  auto small = stages_of(model_);
  run(small, {of_two, 2.0F / 6, false, 1, 0}, sum);
  EXPECT_NEAR(sum.loss, loss, 1e-6);
  EXPECT_THAT(sum.into->dense.on_host<float>(),
              Pointwise(FloatNear(1e-6F), expected->dense.on_host<float>()));
}

TEST_F(StageProgram, SaysWhoReadsWhatItComputes) {
  const auto all = stages_of(model_);
  ASSERT_FALSE(all[0].parts().empty());
  ASSERT_FALSE(all[1].parts().empty());
  const stage_program::part& forward = all[0].parts().front();
  EXPECT_EQ(forward.number, 0U);
  EXPECT_THAT(forward.reads, IsEmpty());
  EXPECT_THAT(forward.readers, ElementsAre(two[1]));
  EXPECT_THAT(all[0].parts().back().readers, IsEmpty()) << "the backward pass ends here";
  EXPECT_EQ(all[0].readers_of(all[0].parts().back().number), 0U);
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

/// The gradient has memory that an earlier step has used.
TEST_F(StageProgram, WritesTheOnlyMicroBatchInPlaceOfWhatWasThere) {
  auto all = stages_of(model_);
  stage_sum sum = new_sum();
  std::ranges::fill(sum.begun, char{1});
  std::ranges::fill(sum.into->dense.on_host<float>(), 100.0F);
  run(all, {samples(0, request_.batch)}, sum);
  const auto expected = by_one_replica().second;
  const auto values = expected->dense.on_host<float>();
  for (const placed_variable& v : layout_->variables())
    for (std::size_t i = v.offset; i < v.offset + v.dims.size(); ++i)
      EXPECT_EQ(sum.into->dense.on_host<float>()[i], values[i]) << v.name;
}

/// Another worker's graph may have variables that this one lacks.
TEST_F(StageProgram, CoversWhatItsModelHas) {
  const model_function larger = [](graph& g, const model_request& r) {
    const model_outputs made = small_model()(g, r);
    g.variable("more", {16}, initialiser::zeros());
    return made;
  };
  const parameter_layout layout = lay_out(larger, request_, 1);
  const stage_program stage(model_, request_, layout, two[0]);
  ASSERT_TRUE(stage.covered());
  for (const placed_variable& v : layout.variables())
    EXPECT_EQ(covers(stage.covered(), {v.offset, v.offset + v.dims.size()}), v.name != "more") << v.name;
  EXPECT_FALSE(stages_of(model_)[0].covered()) << "all of it";
}

/// Each micro-batch draws numbers of its own, and the same ones whenever it is computed.
TEST_F(StageProgram, DrawsByTheNumberOfItsMicroBatch) {
  const model_function drawing = pipelined([](graph& g, const model_request& r) {
    return build_classifier(g, {dense_layer{8, activation::tanh}, dropout_layer{0.5F}, dense_layer{}}, r);
  });
  const auto loss_of = [&](std::uint64_t number) {
    auto all = stages_of(drawing);
    stage_sum sum = new_sum();
    run(all, {samples(0, request_.batch), 1, true, 0, number}, sum);
    return sum.loss;
  };
  EXPECT_EQ(loss_of(3), loss_of(3));
  EXPECT_NE(loss_of(3), loss_of(4));
}

/// Each device computes half of the batch, so every gradient is a sum over both.
TEST_F(StageProgram, DeliversTheAddendsOfASumOverDevices) {
  const model_function model = replicated(small_model());
  auto whole = stages_of(model);
  EXPECT_THAT(whole[1].delivered(), IsEmpty()) << "the first device adds up";
  EXPECT_THAT(whole[0].delivered(), Each(Field(&stage_program::delivery::further, false)));
  stage_sum expected = new_sum();
  run(whole, {samples(0, request_.batch)}, expected);

  auto apart = stages_of(model, true);
  const std::size_t variables = layout_->variables().size();
  for (const stage_program& stage : apart) ASSERT_THAT(stage.delivered(), SizeIs(variables));
  for (std::size_t v = 0; v < variables; ++v) {
    EXPECT_EQ(apart[0].delivered()[v], (stage_program::delivery{v, true}));
    EXPECT_EQ(apart[1].delivered()[v], (stage_program::delivery{v, false}));
  }
  ASSERT_TRUE(apart[1].added());
  EXPECT_THAT(*apart[1].added(), IsEmpty());
  EXPECT_FALSE(apart[0].added()) << "all of the dense part";
  EXPECT_FALSE(apart[0].covered());
  stage_sum sum = new_sum();
  sum.into->addends.resize(1); // own_addend is that of the first device
  sum.into->addends[0].values = block(sum.into->dense.bytes());
  run(apart, {samples(0, request_.batch)}, sum);
  EXPECT_EQ(sum.loss, expected.loss);
  EXPECT_NE(sum.into->dense.on_host<float>()[0], expected.into->dense.on_host<float>()[0])
      << "a part of it alone";
  EXPECT_THAT(whole_dense(*sum.into), ElementsAreArray(expected.into->dense.on_host<float>()));
}

/// A table for both categories of a sample, and another one for the second of them.
model_outputs with_tables(graph& g, const model_request& r) {
  const value pairs = g.input("categories", {r.batch, 2}, dtype::int32);
  const value labels = g.input("labels", {r.batch}, dtype::int32);
  value h;
  {
    const device_scope scope(g, r.devices.front());
    const value second = slice(pairs, 1, 1, 2);
    h = concat(std::vector{flatten(embedding(pairs, 5, 3, "read")), flatten(embedding(second, 5, 2, "made"))},
               1);
  }
  const device_scope scope(g, r.devices.back());
  const value logits = dense(h, r.classes, "last");
  return {logits, cross_entropy(logits, labels)};
}

class StageProgramWithTables : public StageProgram {
protected:
  void use_categories() {
    const dataset d{categorical_features{{5, 5}, {4, 1, 0, 3, 2, 3, 1, 1}, 0, {}}, {0, 1, 1, 0}, 2};
    use(with_tables, std::make_shared<data_split>(data_split{d, d, "categories", {}}), 4);
  }
  /// What both stages compute of one micro-batch.
  stage_sum computed(micro_batch m) {
    if (!samples_) samples_ = samples(0, 4);
    m.samples = samples_;
    auto all = stages_of(model_);
    stage_sum sum = new_sum();
    run(all, m, sum);
    return sum;
  }
  void expect_the_rows_of_one_replica() {
    const auto expected = by_one_replica().second;
    const stage_sum sum = computed({});
    ASSERT_EQ(sum.rows.size(), expected->sparse.size());
    for (const stage_rows& list : sum.rows) {
      const auto like = std::ranges::find(expected->sparse, list.variable, &gradient_rows::variable);
      ASSERT_NE(like, expected->sparse.end());
      EXPECT_EQ(list.width, like->width);
      ASSERT_THAT(list.rows, Not(IsEmpty()));
      EXPECT_THAT(list.rows, ElementsAreArray(like->rows));
      EXPECT_THAT(list.values, ElementsAreArray(like->values));
    }
  }

  std::shared_ptr<batch> samples_; ///< where some of the numbers of rows lie
};

/// The numbers of the rows are computed by a segment, and then those of the batch, which no segment computes.
TEST_F(StageProgramWithTables, ListsTheRowsThatOneReplicaComputes) {
  use_categories();
  expect_the_rows_of_one_replica();
  samples_.reset();
  use(pipelined(small_model()), testing::sparse_data(8), 4);
  expect_the_rows_of_one_replica();
}

TEST_F(StageProgramWithTables, CountsRowsInProportionToTheirMicroBatch) {
  use_categories();
  const stage_sum whole = computed({});
  const stage_sum quarter = computed({nullptr, 0.25F, false, 3, 0});
  ASSERT_THAT(quarter.rows, SizeIs(2));
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(whole.rows[i].micro_batch, 0U);
    EXPECT_EQ(quarter.rows[i].micro_batch, 3U);
    EXPECT_EQ(quarter.rows[i].segment, whole.rows[i].segment);
    EXPECT_THAT(quarter.rows[i].rows, ElementsAreArray(whole.rows[i].rows));
    std::vector<float> values(whole.rows[i].values.begin(), whole.rows[i].values.end());
    for (float& v : values) v *= 0.25F;
    EXPECT_THAT(quarter.rows[i].values, ElementsAreArray(values));
  }
  EXPECT_EQ(quarter.loss, whole.loss * 0.25F);
}

/// A list with memory of its own, of variable 0 if it is not said otherwise.
struct kept_list {
  std::vector<std::int32_t> rows;
  std::vector<float> values;

  stage_rows of(std::size_t micro_batch, std::size_t segment = 0, std::size_t variable = 0) {
    return {variable, micro_batch, segment, values.size() / rows.size(), rows, values};
  }
};

TEST(StageRows, JoinsByMicroBatchThenBySegmentWhateverTheOrderOfTheStages) {
  kept_list a{{5}, {1}}, b{{6}, {2}}, c{{5}, {3}};
  row_memory memory;
  const auto all = joined({c.of(1), b.of(0, 2), a.of(0, 1)}, memory);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_THAT(all[0].rows, ElementsAre(5, 6, 5)) << "repeats stay, for a rule to see at once";
  EXPECT_THAT(all[0].values, ElementsAre(1, 2, 3));
}

TEST(StageRows, KeepsTablesApart) {
  kept_list a{{1}, {10, 11}}, b{{2}, {20}}, c{{3}, {30, 31}};
  row_memory memory;
  const auto all = joined({a.of(0, 0, 4), b.of(0, 0, 2), c.of(1, 0, 4)}, memory);
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].variable, 2U);
  EXPECT_THAT(all[0].values, ElementsAre(20));
  EXPECT_EQ(all[1].variable, 4U);
  EXPECT_EQ(all[1].width, 2U);
  EXPECT_THAT(all[1].rows, ElementsAre(1, 3));
  EXPECT_THAT(all[1].values, ElementsAre(10, 11, 30, 31));
}

TEST(StageRows, LeavesTheOnlyListOfATableInItsPlace) {
  kept_list a{{1, 2}, {10, 20}};
  row_memory memory;
  const auto all = joined({a.of(0)}, memory);
  EXPECT_EQ(all[0].values.data(), a.values.data());
  EXPECT_EQ(memory.used, 0U);
}

TEST(StageRows, EndsAListAtItsFirstNegativeRow) {
  kept_list a{{1, -1, 9}, {10, 0, 90}}, b{{2, 3, -1}, {20, 30, 0}};
  row_memory memory;
  const auto all = joined({a.of(0), b.of(1)}, memory);
  EXPECT_THAT(all[0].rows, ElementsAre(1, 2, 3));
  EXPECT_THAT(all[0].values, ElementsAre(10, 20, 30));
}

TEST(StageRows, CopiesListsOfWideTablesWholeIntoTheMemoryOfTheLastStep) {
  constexpr std::size_t width = 96;
  kept_list a{{1, 2}, std::vector<float>(2 * width, 1.0F)}, b{{3}, std::vector<float>(width, 2.0F)};
  row_memory memory;
  for (int step = 0; step < 3; ++step) {
    const auto all = joined({a.of(0), b.of(1)}, memory);
    ASSERT_THAT(all[0].values, SizeIs(3 * width));
    ASSERT_THAT(memory.blocks, SizeIs(2)) << "the rows and the values";
    EXPECT_GE(memory.blocks[1].bytes(), all[0].values.size_bytes());
    EXPECT_THAT(all[0].values.first(2 * width), Each(1.0F));
    EXPECT_THAT(all[0].values.last(width), Each(2.0F));
  }
  EXPECT_EQ(memory.used, 2U);
}

TEST(RowMemory, IsKeptFromStepToStepAndOnlyGrows) {
  row_memory memory;
  const std::byte* const first = memory.take(64);
  memory.used = 0;
  EXPECT_EQ(memory.take(64), first);
  memory.used = 0;
  EXPECT_EQ(memory.take(32), first);
  EXPECT_NE(memory.take(32), first) << "the block is taken";
  memory.used = 0;
  memory.take(1024);
  EXPECT_GE(memory.blocks[0].bytes(), 1024U);
  EXPECT_THAT(memory.blocks, SizeIs(2));
}

using part = stage_schedule::part;
using turn = stage_schedule::turn;

/// First stage of two: forward is segment 0, which stage 1 reads; backward is segment 2, which reads segment
/// 1.
std::vector<std::vector<part>> first_of_two(std::size_t micro_batches) {
  return std::vector<std::vector<part>>(micro_batches, {{0, {}, {1}}, {2, {0, 1}, {}}});
}

/// Runs what is next, and notes that its own later parts can read it.
turn run_next(stage_schedule& s) {
  const auto t = s.next();
  EXPECT_TRUE(t);
  s.ran(*t);
  if (t->part == 0) s.arrive(t->micro_batch, 0);
  return *t;
}

TEST(StageSchedule, RunsAheadAsFarAsItsCreditGoesAndPutsTheBackwardPassFirst) {
  stage_schedule s(first_of_two(4), 2);
  EXPECT_EQ(run_next(s), (turn{0, 0}));
  EXPECT_EQ(run_next(s), (turn{1, 0}));
  EXPECT_FALSE(s.next()) << "two micro-batches are under way";
  EXPECT_TRUE(s.waits_for_credit());
  s.credit(0, 1);
  EXPECT_EQ(run_next(s), (turn{2, 0}));
  EXPECT_FALSE(s.next());
  s.credit(0, 1);
  s.arrive(0, 1);
  EXPECT_EQ(run_next(s), (turn{0, 1}));
  EXPECT_EQ(run_next(s), (turn{3, 0}));
  EXPECT_FALSE(s.finished());
}

TEST(StageSchedule, KeepsTheOrderOfMicroBatchesWhateverArrivesFirst) {
  stage_schedule s(first_of_two(2), 2);
  run_next(s);
  run_next(s);
  s.arrive(1, 1); // the second before the first
  EXPECT_FALSE(s.next());
  EXPECT_FALSE(s.waits_for_credit()) << "it waits for values";
  s.arrive(0, 1);
  EXPECT_EQ(run_next(s), (turn{0, 1}));
  EXPECT_EQ(run_next(s), (turn{1, 1}));
  EXPECT_TRUE(s.finished());
}

/// Busy share of each stage where a part takes `span` and messages take none: all stages are simulated
/// together.
double least_busy_share(std::size_t stages, std::size_t micro_batches, std::size_t credits) {
  // A chain: stage p has forward segment p and backward segment 2 * stages - 2 - p; the last has one for
  // both.
  const auto backward_of = [&](std::size_t p) { return 2 * stages - 2 - p; };
  std::vector<stage_schedule> all;
  for (std::size_t p = 0; p < stages; ++p) {
    std::vector<part> parts;
    const std::vector<std::size_t> before = p == 0 ? std::vector<std::size_t>{} : std::vector{p - 1};
    if (p + 1 == stages) {
      parts.push_back({p, before, before});
    } else {
      parts.push_back({p, before, {p + 1}});
      parts.push_back({backward_of(p), {p, backward_of(p + 1)}, before});
    }
    all.emplace_back(std::vector<std::vector<part>>(micro_batches, parts), credits);
  }
  constexpr std::size_t forward = 1, back = 2; // a backward pass costs twice a forward pass
  std::vector<std::size_t> free_at(stages, 0), busy(stages, 0);
  std::vector<std::optional<turn>> running(stages);
  std::size_t now = 0;
  while (!std::ranges::all_of(all, [](const auto& s) { return s.finished(); })) {
    for (std::size_t p = 0; p < stages; ++p) {
      if (!running[p] || free_at[p] > now) continue;
      const turn t = *std::exchange(running[p], std::nullopt);
      all[p].ran(t);
      const std::size_t segment = t.part == 1 ? backward_of(p) : p;
      if (segment < stages - 1) { // forward: the next stage has it, and so has this one
        all[p].arrive(t.micro_batch, segment);
        all[p + 1].arrive(t.micro_batch, segment);
      } else {
        if (p > 0) all[p - 1].arrive(t.micro_batch, segment); // values of the backward pass
        if (p > 0) all[p - 1].credit(p - 1, p);               // those of the forward pass are used up
        if (p + 1 < stages) all[p + 1].credit(backward_of(p + 1), p);
      }
    }
    for (std::size_t p = 0; p < stages; ++p) {
      if (running[p]) continue;
      running[p] = all[p].next();
      if (!running[p]) continue;
      const std::size_t span = p + 1 == stages ? forward + back : running[p]->part == 0 ? forward : back;
      busy[p] += span;
      free_at[p] = now + span;
    }
    ++now;
    EXPECT_LT(now, 10'000U) << "a wait that never ends";
    if (now >= 10'000) break;
  }
  const std::size_t length = *std::ranges::max_element(free_at);
  return static_cast<double>(*std::ranges::min_element(busy)) / static_cast<double>(length);
}

TEST(StageSchedule, KeepsTwoEqualStagesBusyForEightNinthsOfAStepAndEndsWithASingleCreditToo) {
  EXPECT_NEAR(least_busy_share(2, 8, 3), 8.0 / 9, 1e-9) << "GPipe's bound m / (m + p - 1)";
  EXPECT_NEAR(least_busy_share(4, 16, 5), 16.0 / 19, 0.02);
  EXPECT_GT(least_busy_share(2, 8, 1), 0.0);
  EXPECT_GT(least_busy_share(4, 8, 1), 0.0);
}

} // namespace
} // namespace mailgrad
