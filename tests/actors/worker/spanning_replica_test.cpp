#include <mailgrad/actors/worker/spanning_replica.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <numeric>
#include <stdexcept>

namespace mailgrad {
namespace {

using ::testing::ElementsAre, ::testing::IsEmpty, ::testing::SizeIs;
using testing::expect_refused, testing::only;

/// The actor of a worker, which hears what its runner must hear.
class hearing_worker {
public:
  static constexpr const char* name = "mailgrad.hearing-worker";
  using task = std::function<void()>;

  hearing_worker(caf::event_based_actor* self, std::shared_ptr<spanning_replica> runner,
                 std::shared_ptr<task> next)
      : self_(self), runner_(std::move(runner)), next_(std::move(next)) {}
  caf::behavior make_behavior() {
    return caf::message_handler{[this](const std::string&) { (*next_)(); }}.or_else(runner_->hear(self_));
  }

private:
  caf::event_based_actor* self_;
  std::shared_ptr<spanning_replica> runner_;
  std::shared_ptr<task> next_;
};

/// A worker over two stages, which the test plays.
class SpanningReplica : public testing::DeterministicTest {
protected:
  using stage_probe = testing::listener<compute_step, give_up>;

  void build(std::size_t micro_batches, std::vector<std::shared_ptr<trace_track>> traces = {},
             bool sums_apart = false) {
    const std::vector<device> devices{{device_kind::cpu, 0}, {device_kind::cpu, 1}};
    const std::vector stages{stages_[0].actor(), stages_[1].actor()};
    runner_ = std::make_shared<spanning_replica>(spanning_replica::options{
        {3}, devices, stages, micro_batches, layout_, std::move(traces), sums_apart});
    runner_->on_end([this] { ++ended_; });
    worker_ = start<hearing_worker>(runner_, next_);
    run();
  }
  void act(const hearing_worker::task& f) {
    *next_ = f;
    tell(worker_, std::string("act"));
  }
  void build_and_begin(std::size_t count) {
    build(1);
    begin(count);
  }
  void begin(std::size_t count) {
    const auto b = std::make_shared<batch>();
    shape_batch(data_->train, count, 0, *b);
    std::vector<std::uint32_t> which(count);
    std::iota(which.begin(), which.end(), 0U);
    fill_batch(data_->train, which, *b);
    b->number = 10;
    act([&] { EXPECT_EQ(runner_->begin_step(b, gradient_), step_state::under_way); });
  }
  void answer(std::size_t stage, float loss, std::int64_t busy = 0) {
    step_computed x{1, stage, {}, busy, nullptr};
    x.sum.loss = loss;
    x.sum.memory = std::make_shared<row_memory>();
    tell(worker_, x);
  }
  void end_step_of(const std::vector<std::size_t>& stages) {
    for (const std::size_t p : stages) answer(p, 0);
    runner_->end_step();
  }
  std::shared_ptr<const step_work> work() { return stages_[0].heard<compute_step>().back().work; }
  void kill(std::size_t stage) {
    messaging::kill(stages_[stage].actor());
    run();
  }
  void expect_broken(const std::string& words) {
    EXPECT_EQ(ended_, 1) << "told once";
    expect_refused({"the step", [this] { runner_->end_step(); }, words});
  }

  const std::shared_ptr<const data_split> data_ = testing::small_data();
  const std::shared_ptr<const parameter_layout> layout_ =
      std::make_shared<parameter_layout>(testing::layout_of({{"w", {64}}}, 2));
  std::array<stage_probe, 2> stages_{listen<compute_step, give_up>(), listen<compute_step, give_up>()};
  const std::shared_ptr<hearing_worker::task> next_ = std::make_shared<hearing_worker::task>();
  std::shared_ptr<spanning_replica> runner_;
  caf::actor worker_;
  std::shared_ptr<gradient> gradient_ = std::make_shared<gradient>();
  int ended_ = 0;
};

TEST_F(SpanningReplica, GivesEveryStageTheSameWork) {
  build(3);
  const std::vector<float> weights(64);
  runner_->use_host_weights(1, weights.data(), std::make_shared<int>());
  begin(8);
  for (auto& stage : stages_) EXPECT_EQ(only(stage.heard<compute_step>()).work, work());
  EXPECT_EQ(work()->step, 1U);
  EXPECT_EQ(work()->weights[1].values, weights.data());
  EXPECT_EQ(work()->into, gradient_);
  ASSERT_THAT(work()->micro_batches, SizeIs(3));
  float shares = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const micro_batch& m = work()->micro_batches[i];
    EXPECT_EQ(m.place, i);
    EXPECT_EQ(m.number, 10 * 3 + i) << "each draws anew";
    EXPECT_FALSE(m.only);
    EXPECT_EQ(m.share, static_cast<float>(m.samples->size) / 8);
    shares += m.share;
  }
  EXPECT_FLOAT_EQ(shares, 1);
}

TEST_F(SpanningReplica, EndsAStepWhenItsLastStageHasAnswered) {
  build_and_begin(4);
  EXPECT_EQ(runner_->waits_for(), "its stages on cpu:0, cpu:1");
  answer(1, 0.5F, 30);
  EXPECT_EQ(ended_, 0);
  EXPECT_EQ(runner_->waits_for(), "its stages on cpu:0");
  answer(0, 0.25F, 20);
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(runner_->end_step(), 0.75F);
  const std::vector<stage_report> reports = runner_->stage_reports();
  ASSERT_THAT(reports, SizeIs(2));
  EXPECT_EQ(reports[0].device, "cpu:0");
  EXPECT_EQ(reports[0].busy, 20);
  EXPECT_EQ(reports[1].busy, 30);
}

/// In the order of the stages, whichever answers first.
TEST_F(SpanningReplica, JoinsTheRowsOfItsStagesAndCoversWhatTheyCover) {
  build_and_begin(4);
  std::vector<std::int32_t> rows{4, 5};
  std::vector<float> values{40, 50};
  const auto covered = std::make_shared<const coverage>(coverage{{0, 16}});
  for (const std::size_t p : {1U, 0U}) {
    step_computed x{1, p, {}, 0, nullptr};
    x.sum.covered = covered;
    x.sum.memory = std::make_shared<row_memory>();
    x.sum.rows.push_back({0, 0, p, 1, std::span(rows).subspan(p, 1), std::span(values).subspan(p, 1)});
    tell(worker_, x);
  }
  runner_->end_step();
  EXPECT_THAT(only(gradient_->sparse).rows, ElementsAre(4, 5));
  EXPECT_THAT(gradient_->sparse[0].values, ElementsAre(40, 50));
  EXPECT_EQ(gradient_->covered, covered);
}

/// So that a shard may update in place after the step.
TEST_F(SpanningReplica, HoldsWeightsNoLongerThanItsStep) {
  build(1);
  auto owner = std::make_shared<int>();
  const std::weak_ptr<int> held = owner;
  runner_->use_host_weights(0, nullptr, std::move(owner));
  EXPECT_FALSE(held.expired());
  begin(2);
  for (auto& stage : stages_) stage.heard<compute_step>().clear();
  EXPECT_TRUE(held.expired());
}

TEST_F(SpanningReplica, IsBrokenByAStageThatFails) {
  build_and_begin(2);
  tell(worker_, stage_failed{1, "label 7 of 3"});
  expect_broken("its stage on cpu:1 failed: label 7 of 3");
  kill(0);
  expect_broken("label 7"); // the first reason counts
}

/// So that the worker ends as one whose only device has failed so.
TEST_F(SpanningReplica, FailsAsTheDeviceOfItsStageDid) {
  for (const std::optional<world_errc> failure :
       {std::optional(world_errc::out_of_memory), std::optional(world_errc::device_failure),
        std::optional<world_errc>()}) {
    build_and_begin(2);
    tell(worker_, stage_failed{1, "why", nullptr, failure});
    tell(worker_, stage_failed{0, "of the first", nullptr, world_errc::wrong_place});
    std::optional<world_errc> found;
    try {
      runner_->end_step();
      ADD_FAILURE() << "it has a loss";
    } catch (const device_error& e) {
      found = static_cast<world_errc>(e.code().value());
      EXPECT_STREQ(e.what(), "its stage on cpu:1 failed: why");
      EXPECT_EQ(dynamic_cast<const out_of_memory*>(&e) != nullptr, found == world_errc::out_of_memory);
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "its stage on cpu:1 failed: why");
    }
    EXPECT_EQ(found, failure);
  }
}

TEST_F(SpanningReplica, IsBrokenByAStageThatDies) {
  build(1);
  kill(0);
  expect_broken("its stage on cpu:0 is gone");
}

TEST_F(SpanningReplica, WatchesItsLastStageToo) {
  build_and_begin(2);
  kill(1);
  expect_broken("its stage on cpu:1 is gone");
}

TEST_F(SpanningReplica, SaysWhatEndedAStage) {
  build(1);
  tell(worker_, stage_lost{1, "out of memory"});
  expect_broken("its stage on cpu:1 is gone: out of memory");
}

TEST_F(SpanningReplica, SendsItsStagesHome) {
  build(1);
  act([&] { EXPECT_EQ(runner_->give_up(), step_state::finished); });
  for (auto& stage : stages_) EXPECT_THAT(stage.heard<give_up>(), SizeIs(1));
}

TEST_F(SpanningReplica, RefusesAStepOfNothing) {
  build(1);
  const auto empty = std::make_shared<batch>(), some = std::make_shared<batch>();
  shape_batch(data_->train, 2, 0, *some);
  some->size = 2;
  expect_refused({
      {"no batch", [&] { runner_->begin_step(nullptr, gradient_); }, "no batch to compute on"},
      {"no sample", [&] { runner_->begin_step(empty, gradient_); }, "no batch to compute on"},
      {"no gradient", [&] { runner_->begin_step(some, nullptr); }, "no gradient to compute into"},
  });
  EXPECT_THAT(stages_[0].heard<compute_step>(), IsEmpty());
}

/// Sizes differ by one sample at most, and no sample is lost or computed twice.
TEST_F(SpanningReplica, CutsTheBatchInItsOrder) {
  build(3);
  begin(8);
  std::vector<std::size_t> sizes;
  std::vector<std::int32_t> labels;
  for (const micro_batch& m : work()->micro_batches) {
    sizes.push_back(m.samples->size);
    for (const std::int32_t label : m.samples->labels.values<std::int32_t>()) labels.push_back(label);
  }
  EXPECT_THAT(sizes, ElementsAre(3, 3, 2));
  EXPECT_THAT(labels, ::testing::ElementsAreArray(data_->train.labels().first(8)));
  build(4);
  begin(1);
  EXPECT_TRUE(only(work()->micro_batches).only) << "one sample is not cut";
  EXPECT_EQ(work()->micro_batches[0].share, 1);
}

TEST_F(SpanningReplica, LetsTheGradientKeepWhatItPointsInto) {
  build(2);
  gradient_->sparse.resize(1);
  gradient_->held.push_back(std::make_shared<int>());
  begin(4);
  EXPECT_THAT(gradient_->sparse, IsEmpty()) << "of an earlier step";
  ASSERT_TRUE(gradient_->source);
  EXPECT_EQ(gradient_->source->number, 10U);
  ASSERT_THAT(gradient_->held, SizeIs(2));
  for (const std::size_t i : {0U, 1U}) EXPECT_EQ(gradient_->held[i], work()->micro_batches[i].samples);
  EXPECT_THAT(gradient_->addends, IsEmpty());
  end_step_of({0, 1});
  EXPECT_THAT(gradient_->held, SizeIs(5)) << "and the memory of the rows: of each stage, and joined";
}

TEST_F(SpanningReplica, MakesRoomForAnAddendOfEachStage) {
  build(1, {}, true);
  begin(4);
  EXPECT_THAT(gradient_->addends, SizeIs(2));
}

TEST_F(SpanningReplica, TellsTheStagesWhetherOthersWriteToTheWeights) {
  build_and_begin(2);
  EXPECT_FALSE(work()->racing);
  end_step_of({0, 1});
  runner_->use_racing_weights(true);
  begin(2);
  EXPECT_TRUE(work()->racing);
}

/// A sum of the first step must not count in the second one.
TEST_F(SpanningReplica, BeginsEachStepAnew) {
  build(1);
  for (const std::uint64_t step : {1U, 2U}) {
    begin(4);
    EXPECT_EQ(stages_[1].heard<compute_step>().back().work->step, step);
    EXPECT_EQ(runner_->waits_for(), "its stages on cpu:0, cpu:1");
    answer(0, 1, 20);
    EXPECT_EQ(ended_, static_cast<int>(step) - 1);
    answer(1, 2, 30);
    EXPECT_EQ(ended_, static_cast<int>(step));
    EXPECT_EQ(runner_->end_step(), 3);
  }
  EXPECT_EQ(runner_->stage_reports()[0].busy, 40) << "of both steps";
}

/// A stage has its timeline while it computes, and the runner between two steps.
TEST_F(SpanningReplica, LendsEachStageItsTimeline) {
  const auto first = std::make_shared<trace_track>("first", 1, instant{0});
  const auto second = std::make_shared<trace_track>("second", 1, instant{0});
  build(1, {first, second});
  begin(2);
  EXPECT_EQ(stages_[0].heard<compute_step>()[0].trace, first);
  EXPECT_EQ(stages_[1].heard<compute_step>()[0].trace, second);
  step_computed x{1, 0, {}, 0, first};
  tell(worker_, x);
  EXPECT_EQ(runner_->stage_reports()[0].trace, first);
  EXPECT_FALSE(runner_->stage_reports()[1].trace) << "the stage has it";
  tell(worker_, stage_failed{1, "why", second});
  EXPECT_EQ(runner_->stage_reports()[1].trace, second);
}

} // namespace
} // namespace mailgrad
