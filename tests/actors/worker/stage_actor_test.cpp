#include <mailgrad/actors/worker/stage_actor.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/engine/ticking_time.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <span>

namespace mailgrad {
namespace {

using ::testing::Contains, ::testing::ElementsAreArray, ::testing::HasSubstr, ::testing::IsEmpty,
    ::testing::Not, ::testing::SizeIs;
using testing::only, testing::small_model;

/// Two stages of the small model, and a worker that the test plays.
class StageActor : public testing::DeterministicTest {
protected:
  using worker = testing::listener<step_computed, stage_failed>;

  StageActor() {
    request_.sample_dims = data_->train.sample_dims();
    request_.classes = data_->train.classes();
    request_.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 1}};
    use(pipelined(small_model()));
  }

  void use(const model_function& model, std::size_t shards = 1) {
    layout_ = std::make_shared<parameter_layout>(lay_out(model, request_, shards));
    weights_ = testing::first_values(*layout_, 5);
  }
  void begin(std::size_t credits = 2, bool sums_apart = false,
             const model_function& model = pipelined(small_model())) {
    stages_.clear();
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
  worker compute(std::size_t stage, std::shared_ptr<const step_work> work,
                 std::shared_ptr<trace_track> track = {}) {
    return ask<step_computed, stage_failed>(stages_[stage], compute_step{std::move(work), std::move(track)});
  }

  /// Tells the stages of the step in the given order, and returns the loss of all.
  float loss_of(const std::shared_ptr<const step_work>& work, bool second_first = false) {
    std::vector<worker> heard{compute(second_first ? 1 : 0, work)};
    EXPECT_THAT(heard[0].heard<step_computed>(), IsEmpty()) << "it needs the values of the other";
    heard.push_back(compute(second_first ? 0 : 1, work));
    float loss = 0;
    for (worker& w : heard) {
      EXPECT_THAT(w.heard<stage_failed>(), IsEmpty());
      const step_computed& x = only(w.heard<step_computed>());
      EXPECT_EQ(x.step, work->step);
      loss += x.sum.loss;
    }
    return loss;
  }
  float loss_of_one_replica(gradient& out, const model_function& model = small_model()) {
    model_request request = request_;
    request.devices = {request_.devices[0]};
    replica whole(model, request, layout_);
    for (std::uint32_t s = 0; s < layout_->shard_count(); ++s)
      whole.use_weights(s, weights_.data() + layout_->shard(s).begin);
    const std::shared_ptr<gradient> g = whole.make_gradient();
    whole.begin_step(samples(0, 6), g);
    out.dense = memory(block(g->dense.bytes()));
    std::ranges::copy(g->dense.on_host<float>(), out.dense.on_host<float>().begin());
    return whole.end_step();
  }
  void expect_as_one_replica(const std::shared_ptr<step_work>& work,
                             const model_function& model = small_model(), bool second_first = false) {
    gradient expected;
    const float loss = loss_of_one_replica(expected, model);
    EXPECT_EQ(loss_of(work, second_first), loss);
    EXPECT_THAT(work->into->dense.on_host<float>(), ElementsAreArray(expected.dense.on_host<float>()));
  }

  std::shared_ptr<const data_split> data_ = testing::small_data();
  model_request request_;
  std::shared_ptr<const parameter_layout> layout_;
  std::vector<float> weights_;
  std::vector<caf::actor> stages_;
  std::shared_ptr<const time_source> clock_ = time_;
};

TEST_F(StageActor, ComputesWithTheOtherWhatOneReplicaComputes) {
  begin();
  for (const bool second_first : {false, true})
    expect_as_one_replica(work_of(second_first ? 2 : 1, {6}), small_model(), second_first);
}

/// However few micro-batches a stage may be ahead of the other.
TEST_F(StageActor, AddsItsMicroBatchesInTheirOrderWhateverItsCredit) {
  std::vector<float> first;
  for (const std::size_t credits : {1U, 3U}) {
    begin(credits);
    const auto work = work_of(1, {2, 2, 2});
    loss_of(work);
    const std::span<const float> values = work->into->dense.on_host<float>();
    if (first.empty()) first.assign(values.begin(), values.end());
    EXPECT_THAT(values, ElementsAreArray(first));
  }
  gradient expected;
  loss_of_one_replica(expected);
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_NEAR(first[i], expected.dense.on_host<float>()[i], 1e-6);
}

TEST_F(StageActor, HoldsNothingOfAStepThatItHasAnswered) {
  begin();
  auto work = work_of(1, {3, 3});
  const std::weak_ptr<step_work> held = work;
  loss_of(work);
  work.reset();
  EXPECT_TRUE(held.expired());
}

/// Each device computes half of the batch.
TEST_F(StageActor, WritesItsAddendApartIfShardsAddUp) {
  const auto compute_all = [this](const std::shared_ptr<step_work>& work) {
    auto first = compute(0, work), second = compute(1, work);
    for (worker* w : {&first, &second}) EXPECT_THAT(w->heard<step_computed>(), SizeIs(1));
  };
  begin(2, false, replicated(small_model()));
  const auto whole = work_of(1, {6});
  compute_all(whole);
  begin(2, true, replicated(small_model()));
  const auto apart = work_of(1, {6});
  auto& addends = apart->into->addends;
  addends.resize(2);
  compute_all(apart);
  EXPECT_EQ(addends[0].values.bytes(), apart->into->dense.bytes());
  EXPECT_FALSE(addends[0].covered) << "all of it";
  EXPECT_EQ(addends[1].values.bytes(), 0U) << "the second stage delivers the first addends";
  ASSERT_TRUE(addends[1].covered);
  EXPECT_THAT(*addends[1].covered, IsEmpty());
  EXPECT_THAT(whole_dense(*apart->into), ElementsAreArray(whole->into->dense.on_host<float>()));
}

/// Each shard's weights lie in a block of their own.
TEST_F(StageActor, TakesTheWeightsOfEveryShard) {
  use(pipelined(small_model()), 2);
  begin();
  std::vector<std::vector<float>> blocks;
  for (std::size_t s = 0; s < 2; ++s) {
    const shard_range r = layout_->shard(s);
    const auto part = std::span<const float>(weights_).subspan(r.begin, r.size());
    blocks.emplace_back(part.begin(), part.end());
  }
  const auto work = work_of(1, {6});
  work->weights = {{blocks[0].data(), nullptr}, {blocks[1].data(), nullptr}};
  expect_as_one_replica(work);
}

/// The gradient has memory that an earlier step has used.
TEST_F(StageActor, BeginsEachSumAnew) {
  begin();
  const auto clean = work_of(1, {3, 3}), used = work_of(2, {3, 3});
  std::ranges::fill(used->into->dense.on_host<float>(), 100.0F);
  EXPECT_EQ(loss_of(clean), loss_of(used));
  const std::span<const float> was = clean->into->dense.on_host<float>(),
                               is = used->into->dense.on_host<float>();
  for (const placed_variable& v : layout_->variables())
    for (std::size_t i = v.offset; i < v.offset + v.dims.size(); ++i) EXPECT_EQ(is[i], was[i]) << v.name;
}

/// A model with a table takes memory for the rows of each micro-batch.
TEST_F(StageActor, TakesTheMemoryForItsRowsAgainInEachStep) {
  data_ = testing::sparse_data();
  request_.sample_dims = data_->train.sample_dims();
  request_.nonzeros = max_nonzeros(data_->train, 3);
  use(pipelined(small_model()));
  begin();
  for (const std::uint64_t step : {1U, 2U, 3U}) {
    const auto work = work_of(step, {3, 3});
    auto first = compute(0, work);
    compute(1, work);
    const stage_sum& sum = only(first.heard<step_computed>()).sum;
    EXPECT_THAT(sum.rows, SizeIs(2)) << "of each micro-batch";
    EXPECT_THAT(sum.memory->blocks, SizeIs(2));
    EXPECT_EQ(sum.memory->used, 2U);
    first.heard<step_computed>().clear(); // the worker has applied it
  }
}

/// Two parts of the second device read what the first device computes first.
model_outputs read_twice(graph& g, const model_request& r) {
  const device_scope scope(g, r.devices.front());
  const value x =
      dense(g.input("features", {r.batch, testing::small_features}), 4, "first", activation::tanh);
  value y;
  {
    const device_scope other(g, r.devices.back());
    y = dense(x, 4, "second", activation::tanh);
  }
  y = dense(y, 4, "third", activation::tanh);
  const device_scope other(g, r.devices.back());
  y = dense(x + y, r.classes, "last");
  return {y, cross_entropy(y, g.input("labels", {r.batch}, dtype::int32))};
}

TEST_F(StageActor, KeepsValuesUntilTheLastPartHasReadThem) {
  use(read_twice);
  begin(2, false, read_twice);
  expect_as_one_replica(work_of(1, {6}), read_twice);
}

TEST_F(StageActor, SaysWhyItCannotCompute) {
  begin();
  const auto work = work_of(1, {6});
  const auto wrong = samples(0, 6);
  std::ranges::fill(wrong->labels.values<std::int32_t>(), 99);
  work->micro_batches[0].samples = wrong;
  compute(0, work);
  auto second = compute(1, work);
  EXPECT_EQ(only(second.heard<stage_failed>()).stage, 1U);
  EXPECT_THAT(second.heard<stage_failed>()[0].why, HasSubstr("label 99"));
}

/// A model that is placed otherwise for two samples than for any other number.
model_outputs unevenly_placed(graph& g, const model_request& r) {
  if (r.batch != 2) return pipelined(small_model())(g, r);
  const device_scope scope(g, r.devices[0]);
  return small_model()(g, r);
}

TEST_F(StageActor, RefusesMicroBatchesThatArePlacedDifferentlyAndGoesOn) {
  begin(2, false, unevenly_placed);
  auto work = work_of(1, {3, 2});
  const std::weak_ptr<step_work> held = work;
  const auto track = std::make_shared<trace_track>("first", 4, instant{0});
  {
    auto first = compute(0, work, track);
    EXPECT_THAT(first.heard<step_computed>(), IsEmpty());
    const stage_failed& x = only(first.heard<stage_failed>());
    EXPECT_EQ(x.stage, 0U);
    EXPECT_THAT(x.why, HasSubstr("micro-batches of two sizes are placed differently"));
    EXPECT_EQ(x.trace, track);
  }
  work.reset();
  EXPECT_TRUE(held.expired()) << "it holds nothing of the step";
  gradient expected;
  EXPECT_EQ(loss_of(work_of(2, {6})), loss_of_one_replica(expected));
}

/// A GPU would be lost with its stage, and a core is not; nor is what lacks memory.
TEST_F(StageActor, TellsWhetherItsDeviceWorksOn) {
  const auto failure_of = [this](const auto& why) {
    begin(2, false, [=](graph&, const model_request&) -> model_outputs { throw why; });
    auto stage = compute(0, work_of(1, {6}));
    return only(stage.heard<stage_failed>());
  };
  const stage_failed failed = failure_of(device_error(world_errc::device_failure, "onednn: no such layout"));
  EXPECT_EQ(failed.why, "onednn: no such layout");
  EXPECT_EQ(failed.by_device, std::nullopt);
  const stage_failed lacks_memory = failure_of(out_of_memory("2.0 GiB asked for"));
  EXPECT_EQ(lacks_memory.why, "2.0 GiB asked for, for the values of a stage for 6 samples");
  EXPECT_EQ(lacks_memory.by_device, world_errc::out_of_memory);
}

TEST_F(StageActor, ComputesNothingOnceItHasGivenUp) {
  begin();
  tell(stages_[0], give_up{});
  auto first = compute(0, work_of(1, {6}));
  EXPECT_THAT(first.heard<step_computed>(), IsEmpty());
  EXPECT_THAT(first.heard<stage_failed>(), IsEmpty());
}

/// The test is the second stage, which gives credit only when it wants to.
TEST_F(StageActor, IsAheadOfItsReaderByNoMoreThanItsCredit) {
  for (const std::size_t credits : {1U, 2U}) {
    begin(credits);
    auto reader = listen<values_computed>();
    std::vector<values_computed>& sent = reader.heard<values_computed>();
    stages_[1] = reader.actor();
    compute(0, work_of(7, {2, 2, 2, 2}));
    EXPECT_THAT(sent, SizeIs(credits));
    tell(stages_[0], values_used{6, 0, 1});
    EXPECT_THAT(sent, SizeIs(credits)) << "that was credit of another step";
    tell(stages_[0], values_used{7, 0, 1});
    ASSERT_THAT(sent, SizeIs(credits + 1));
    for (std::size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(sent[i].step, 7U);
      EXPECT_EQ(sent[i].micro_batch, i);
      EXPECT_EQ(sent[i].segment, 0U);
    }
  }
}

/// The test overhears what the second stage tells the first.
TEST_F(StageActor, GivesCreditForEachMicroBatchThatItHasRead) {
  begin();
  auto first = listen<values_computed, values_used>();
  const auto work = work_of(7, {3, 3});
  const auto overheard = std::make_shared<step_work>(*work);
  overheard->stages[0] = first.actor();
  compute(0, work);
  auto second = compute(1, overheard);
  EXPECT_THAT(first.heard<values_used>(), SizeIs(2));
  for (const values_used& x : first.heard<values_used>()) {
    EXPECT_EQ(x.step, 7U);
    EXPECT_EQ(x.segment, 0U);
    EXPECT_EQ(x.reader, 1U);
  }
  EXPECT_THAT(first.heard<values_computed>(), SizeIs(2)) << "of the backward pass";
  EXPECT_EQ(only(second.heard<step_computed>()).stage, 1U);
  EXPECT_FALSE(second.heard<step_computed>()[0].sum.into) << "the worker has the gradient";
}

/// On a clock that goes on by a microsecond whenever it is read.
TEST_F(StageActor, TellsItsTimelineWhatItComputedAndWaitedFor) {
  clock_ = std::make_shared<testing::ticking_time>();
  begin(1);
  const auto work = work_of(7, {3, 3});
  const auto track = std::make_shared<trace_track>("first", 20, instant{0});
  auto first = compute(0, work, track);
  compute(1, work);
  std::vector<std::pair<std::uint32_t, std::uint64_t>> computed;
  std::vector<trace_kind> waits;
  for (const trace_event& e : track->events()) {
    if (e.what != trace_kind::compute_part) {
      waits.push_back(e.what);
      continue;
    }
    computed.emplace_back(e.peer, e.version);
    EXPECT_EQ(e.step, 7U);
    EXPECT_EQ(e.end - e.begin, std::chrono::microseconds{1});
  }
  ASSERT_THAT(computed, SizeIs(4)) << "forward and backward, of two micro-batches";
  EXPECT_EQ(computed.front(), (std::pair<std::uint32_t, std::uint64_t>{0, 0}));
  EXPECT_EQ(computed.back().first, 1U);
  EXPECT_GT(computed.back().second, 0U) << "the segment of the backward pass";
  ASSERT_THAT(waits, Not(IsEmpty()));
  EXPECT_EQ(waits.front(), trace_kind::next_step);
  EXPECT_THAT(waits, Contains(trace_kind::credit)) << "the second stage had not begun";
  EXPECT_EQ(only(first.heard<step_computed>()).busy, 4000);
  EXPECT_EQ(first.heard<step_computed>()[0].trace, track);
}

TEST_F(StageActor, CountsTheTimeOfOneStep) {
  clock_ = std::make_shared<testing::ticking_time>();
  begin();
  for (const std::uint64_t step : {1U, 2U}) {
    const auto work = work_of(step, {3, 3});
    auto first = compute(0, work);
    compute(1, work);
    EXPECT_EQ(only(first.heard<step_computed>()).busy, 4000);
  }
}

} // namespace
} // namespace mailgrad
