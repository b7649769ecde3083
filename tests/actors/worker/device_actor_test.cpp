#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/engine/worker/late_runner.hpp>
#include <mailgrad/tests/net/played_sums.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/worker/device_actor.hpp>
#include <mailgrad/engine/worker/replica.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A device actor between two shards, a feeder and a coordinator that are all played by probes.
class DeviceActor : public testing::DeterministicTest {
protected:
  void begin(double clip_norm = 0, bool hogwild = false) {
    model_request request;
    request.sample_dims = data_->train.sample_dims();
    request.classes = data_->train.classes();
    layout_ = std::make_shared<parameter_layout>(lay_out(testing::small_model(), request, hogwild ? 1 : 2));
    device_actor_options options;
    options.worker = {3};
    const model_function model = [](graph& g, const model_request& r) {
      if (r.batch == unlucky_batch) throw graph_error("dense1: no memory for such a batch");
      return testing::small_model()(g, r);
    };
    options.runner = std::make_shared<replica>(model, request, layout_);
    if (late_) options.runner = std::make_shared<testing::late_runner>(options.runner, *late_);
    if (hogwild) {
      store_ = std::make_shared<hogwild_store>(testing::first_values(*layout_, 1));
      options.writer = std::make_shared<hogwild_writer>(*layout_, store_, testing::sgd(0.1));
      options.direct = true;
      options.shard_begins = {0};
    } else {
      for (const auto& s : shards_) options.shards.push_back(s.actor());
    }
    options.sums = std::move(sums_);
    options.late = life_ > 0;
    options.life = {life_};
    options.clip_norm = clip_norm;
    options.feeder = feeder_.actor();
    options.tracker = tracker_.actor();
    options.coordinator = coordinator_.actor();
    options.time = time_;
    device_ = start<device_actor>(std::move(options));
    run();
  }

  void give_weights(std::uint32_t shard, std::uint64_t version, instant waited = 0ns) {
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
  void end_a_late_step() {
    ASSERT_TRUE(late_->end_one());
    run();
  }
  std::vector<push_gradient>& pushed_to(std::size_t shard) { return shards_[shard].heard<push_gradient>(); }
  std::size_t batches_asked_for() { return feeder_.heard<next_batch>().size(); }

  static constexpr std::size_t unlucky_batch = 5;
  using shard_probe = testing::listener<join_shard, push_gradient, worker_left>;
  const std::shared_ptr<const data_split> data_ = testing::small_data();
  std::shared_ptr<const parameter_layout> layout_;
  std::shared_ptr<hogwild_store> store_;
  std::optional<testing::late_steps> late_; ///< steps end when the test says so, if there is one
  std::vector<shard_probe> shards_{listen<join_shard, push_gradient, worker_left>(),
                                   listen<join_shard, push_gradient, worker_left>()};
  std::uint32_t life_ = 0;                  ///< a later one joins late
  std::shared_ptr<net::all_reduce> sums_{}; ///< with other workers, if there are any
  testing::listener<next_batch, worker_left, deal_again> feeder_ =
      listen<next_batch, worker_left, deal_again>();
  testing::listener<worker_progress, staleness_observed> tracker_ =
      listen<worker_progress, staleness_observed>();
  testing::listener<worker_joined, worker_finished, loss_diverged, worker_failed, worker_paused>
      coordinator_ = listen<worker_joined, worker_finished, loss_diverged, worker_failed, worker_paused>();
  caf::actor device_;
  std::vector<std::weak_ptr<memory>> given_;
};

TEST_F(DeviceActor, JoinsEverybodyAndAsksForABatch) {
  begin();
  for (std::size_t s = 0; s < 2; ++s) {
    ASSERT_THAT(shards_[s].heard<join_shard>(), SizeIs(1));
    EXPECT_EQ(shards_[s].heard<join_shard>()[0].worker, rank{3});
    EXPECT_EQ(shards_[s].heard<join_shard>()[0].device, device_);
  }
  EXPECT_THAT(coordinator_.heard<worker_joined>(), SizeIs(1));
  EXPECT_EQ(batches_asked_for(), 1U);
}

TEST_F(DeviceActor, WaitsForTheWeightsOfEveryShard) {
  begin();
  give_batch();
  give_weights(1, 0);
  EXPECT_THAT(pushed_to(0), IsEmpty());
  give_weights(0, 0);
  EXPECT_THAT(pushed_to(0), SizeIs(1));
}

TEST_F(DeviceActor, PushesEachGradientOnceToEveryShardWithTheVersionItRead) {
  begin();
  give_weights(0, 7);
  give_weights(1, 9);
  give_batch();
  for (std::size_t s = 0; s < 2; ++s) {
    ASSERT_THAT(pushed_to(s), SizeIs(1));
    EXPECT_EQ(pushed_to(s)[0].header.id.worker, rank{3});
    EXPECT_EQ(pushed_to(s)[0].header.id.step.value, 1U);
    EXPECT_EQ(pushed_to(s)[0].header.version_read.value, s == 0 ? 7U : 9U);
    EXPECT_EQ(std::bit_cast<float>(pushed_to(s)[0].header.scale_bits), 1.0F);
  }
  EXPECT_EQ(pushed_to(0)[0].payload.values, pushed_to(1)[0].payload.values)
      << "one block, which nobody copies";
  give_batch();
  give_weights(0, 8);
  EXPECT_THAT(pushed_to(0), SizeIs(1)) << "the weights of shard 1 are still to come";
  give_weights(1, 10);
  ASSERT_THAT(pushed_to(0), SizeIs(2));
  EXPECT_EQ(pushed_to(0)[1].header.id.step.value, 2U);
}

TEST_F(DeviceActor, AsksForTheNextBatchBeforeItComputes) {
  begin();
  give_all_weights(0);
  give_batch();
  EXPECT_EQ(batches_asked_for(), 2U);
  give_batch();
  EXPECT_EQ(batches_asked_for(), 2U) << "one ahead, not two";
}

TEST_F(DeviceActor, LetsItsWeightsGoBeforeItPushes) {
  begin();
  give_all_weights(0);
  EXPECT_FALSE(given_[0].expired());
  give_batch();
  EXPECT_TRUE(given_[0].expired());
  EXPECT_TRUE(given_[1].expired());
}

TEST_F(DeviceActor, DoesNotReuseAGradientThatAShardHolds) {
  begin();
  for (std::uint64_t step = 0; step < 3; ++step) {
    give_all_weights(step);
    give_batch();
  }
  EXPECT_NE(pushed_to(0)[0].payload.values, pushed_to(0)[1].payload.values);
  EXPECT_NE(pushed_to(0)[1].payload.values, pushed_to(0)[2].payload.values);
  const gradient* const first = pushed_to(0)[0].payload.values.get();
  for (std::size_t s = 0; s < 2; ++s) pushed_to(s).clear();
  give_all_weights(3);
  give_batch();
  EXPECT_EQ(pushed_to(0)[0].payload.values.get(), first) << "nobody holds it any longer";
}

TEST_F(DeviceActor, FinishesWhenTheFeederHasNoMore) {
  begin();
  give_all_weights(0);
  give_batch();
  tell(device_, data_exhausted{});
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty()) << "its gradient is not answered yet";
  give_weights(0, 1);
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty());
  give_weights(1, 1);
  ASSERT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
  const worker_report r = coordinator_.heard<worker_finished>()[0].report;
  EXPECT_EQ(r.worker, rank{3});
  EXPECT_EQ(r.produced, 1U);
  EXPECT_EQ(r.samples, 4U);
  EXPECT_TRUE(std::isfinite(std::bit_cast<float>(r.loss_bits)));
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<worker_left>(), SizeIs(1));
  EXPECT_THAT(feeder_.heard<worker_left>(), SizeIs(1));
}

TEST_F(DeviceActor, DoesNotPushAGradientWhoseLossIsNoNumber) {
  begin();
  give_all_weights(0);
  give_batch();
  give_all_weights(1);
  give_batch(4, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(pushed_to(0), SizeIs(1));
  EXPECT_THAT(pushed_to(1), SizeIs(1));
  ASSERT_THAT(coordinator_.heard<loss_diverged>(), SizeIs(1));
  const loss_diverged d = coordinator_.heard<loss_diverged>()[0];
  EXPECT_EQ(d.step, 2U);
  EXPECT_EQ(d.report.produced, 2U);
  EXPECT_EQ(d.report.not_finite, 1U);
  EXPECT_TRUE(std::isfinite(std::bit_cast<float>(d.report.loss_bits))) << "the last finite one";
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty()) << "it is accounted for once";
  EXPECT_THAT(shards_[0].heard<worker_left>(), SizeIs(1));
}

TEST_F(DeviceActor, SaysWhyItFailed) {
  begin();
  give_all_weights(0);
  give_batch(unlucky_batch);
  ASSERT_THAT(coordinator_.heard<worker_failed>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_failed>()[0].why, "dense1: no memory for such a batch");
  EXPECT_EQ(coordinator_.heard<worker_failed>()[0].report.produced, 0U);
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty());
  EXPECT_THAT(pushed_to(0), IsEmpty());
}

TEST_F(DeviceActor, ScalesALongGradientDownToTheLargestNorm) {
  constexpr double largest = 1e-3;
  begin(largest);
  give_all_weights(0);
  give_batch();
  const push_gradient& push = pushed_to(0)[0];
  double squares = 0;
  for (const float g : push.payload.values->dense.as<float>())
    squares += static_cast<double>(g) * static_cast<double>(g);
  const auto scale = static_cast<double>(std::bit_cast<float>(push.header.scale_bits));
  EXPECT_LT(scale, 1);
  EXPECT_NEAR(std::sqrt(squares) * scale, largest, 1e-4 * largest + 1e-6);
  EXPECT_EQ(pushed_to(1)[0].header.scale_bits, push.header.scale_bits)
      << "the norm is that of the whole gradient";
}

TEST_F(DeviceActor, AddsUpTheLongestWaitOfEachStep) {
  begin();
  give_all_weights(0);
  give_batch();
  give_batch();
  give_weights(0, 1, 2s);
  give_weights(1, 1, 3s);
  tell(device_, data_exhausted{});
  give_all_weights(2);
  EXPECT_EQ(instant{coordinator_.heard<worker_finished>().at(0).report.barrier_wait}, 3s);
}

TEST_F(DeviceActor, CountsTheTimeItWaitsForABatch) {
  begin();
  give_all_weights(0);
  time_->advance(4s);
  give_batch();
  give_batch();
  time_->advance(7s);
  give_all_weights(1); // the batch was there first
  tell(device_, data_exhausted{});
  give_all_weights(2);
  EXPECT_EQ(instant{coordinator_.heard<worker_finished>().at(0).report.feeder_wait}, 4s);
}

TEST_F(DeviceActor, SaysInWordsWhatItWaitsFor) {
  begin();
  give_weights(0, 0);
  const auto first = ask<wait_named>(device_, name_waits{}).heard<wait_named>();
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_THAT(first[0].what, HasSubstr("worker 3 waits for the weights of 1 of 2 shards"));
  give_weights(1, 0);
  const auto second = ask<wait_named>(device_, name_waits{}).heard<wait_named>();
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_THAT(second[0].what, HasSubstr("worker 3 waits for a batch"));
}

TEST_F(DeviceActor, ReportsAndEndsWhenItIsToldToGiveUp) {
  begin();
  give_all_weights(0);
  give_batch();
  tell(device_, give_up{});
  ASSERT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_finished>()[0].report.produced, 1U);
}

TEST_F(DeviceActor, TellsTheTrackerAFewTimesASecond) {
  begin();
  for (std::uint64_t step = 0; step < 10; ++step) {
    time_->advance(30ms);
    give_all_weights(step);
    give_batch();
  }
  const auto& notices = tracker_.heard<worker_progress>();
  EXPECT_THAT(notices, SizeIs(2));
  std::uint64_t steps = 0;
  for (const worker_progress& p : notices) steps += p.steps;
  EXPECT_EQ(steps, 8U);
}

TEST_F(DeviceActor, WritesIntoTheSharedBlockItselfInHogwild) {
  begin(0, true);
  const float before = store_->load(0);
  give_batch();
  EXPECT_EQ(store_->version(), 1U);
  give_batch();
  EXPECT_EQ(store_->version(), 2U);
  EXPECT_NE(store_->load(0), before);
  tell(device_, data_exhausted{});
  const worker_report r = coordinator_.heard<worker_finished>().at(0).report;
  EXPECT_EQ(r.applied, 2U);
  EXPECT_EQ(r.produced, 2U);
  EXPECT_EQ(r.gaps.total(), 2U);
  EXPECT_EQ(r.gaps.max(), 0U);
}

TEST_F(DeviceActor, LeavesTheSharedBlockAloneWhenTheLossIsNoNumber) {
  begin(0, true);
  give_batch(4, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(store_->version(), 0U);
  std::vector<float> values(store_->size());
  store_->load(0, values);
  EXPECT_TRUE(std::ranges::all_of(values, [](float v) { return std::isfinite(v); }));
  EXPECT_THAT(coordinator_.heard<loss_diverged>(), SizeIs(1));
}

/// A device actor whose runner ends its steps later.
class LateDeviceActor : public DeviceActor {
protected:
  LateDeviceActor() { late_.emplace(1); }
  ~LateDeviceActor() override {
    while (late_->end_one()) {
    } // a runner that dies waits for its step
  }
};

TEST_F(LateDeviceActor, PushesWhenItsStepHasEnded) {
  begin();
  give_all_weights(0);
  give_batch();
  EXPECT_THAT(pushed_to(0), IsEmpty());
  EXPECT_FALSE(given_[0].expired()) << "the step reads them";
  end_a_late_step();
  EXPECT_THAT(pushed_to(0), SizeIs(1));
  EXPECT_TRUE(given_[0].expired());
}

TEST_F(LateDeviceActor, BeginsNoOtherStepMeanwhile) {
  begin();
  give_all_weights(0);
  give_batch();
  give_batch();
  EXPECT_EQ(late_->under_way(), 1U);
  tell(device_, data_exhausted{});
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty());
  end_a_late_step();
  give_all_weights(1);
  EXPECT_EQ(late_->under_way(), 1U) << "the batch that came meanwhile";
}

TEST_F(LateDeviceActor, PausesWhenItsStepHasEnded) {
  begin();
  give_all_weights(0);
  give_batch();
  tell(device_, pause_worker{1, false});
  EXPECT_THAT(coordinator_.heard<worker_paused>(), IsEmpty());
  end_a_late_step();
  ASSERT_THAT(coordinator_.heard<worker_paused>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_paused>()[0].step.value, 1U) << "the step counts for the old epoch";
}

TEST_F(LateDeviceActor, ReportsAtOnceWhenItGivesUpAndHoldsWhatItsStepReads) {
  begin();
  give_all_weights(0);
  give_batch();
  tell(device_, give_up{});
  ASSERT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_finished>()[0].report.produced, 0U);
  EXPECT_THAT(shards_[0].heard<worker_left>(), SizeIs(1));
  EXPECT_FALSE(given_[0].expired()) << "the step reads them still";
  give_all_weights(1); // what comes now changes nothing
  give_batch();
  tell(device_, pause_worker{1, false});
  tell(device_, give_up{});
  EXPECT_FALSE(given_[0].expired());
  end_a_late_step();
  EXPECT_TRUE(given_[0].expired()) << "the actor has ended";
  EXPECT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1)) << "once";
  EXPECT_THAT(coordinator_.heard<worker_paused>(), IsEmpty());
  EXPECT_THAT(pushed_to(0), IsEmpty());
}

TEST_F(DeviceActor, PushesAndGoesOnWhenTheSumOfAllWorkersIsThere) {
  net::played_sums sums(4);
  const auto other = sums.join(2);
  for (const std::size_t gone : {0, 1}) sums.join(gone).reset();
  sums_ = sums.join(3);
  begin();
  give_all_weights(0);
  give_batch();
  give_batch();
  EXPECT_THAT(pushed_to(0), IsEmpty());
  std::vector<float> numbers(layout_->dense_size());
  other->add(numbers, {}, [](const auto&) {});
  run();
  ASSERT_THAT(pushed_to(0), SizeIs(1));
  EXPECT_EQ(pushed_to(0)[0].header.sum->carrier, rank{2});
  EXPECT_EQ(sums.rounds(), 1U);
  give_all_weights(1);
  other->add(numbers, {}, [](const auto&) {});
  run();
  EXPECT_THAT(pushed_to(0), SizeIs(2));
}

TEST_F(LateDeviceActor, LeavesTheSumOfAllWorkersAtOnceWhenItGivesUp) {
  net::played_sums sums(4);
  const auto other = sums.join(2);
  for (const std::size_t gone : {0, 1}) sums.join(gone).reset();
  sums_ = sums.join(3);
  begin();
  give_all_weights(0);
  give_batch();
  std::vector<float> numbers(layout_->dense_size());
  other->add(numbers, {}, [](const auto&) {});
  EXPECT_EQ(sums.rounds(), 0U);
  tell(device_, give_up{});
  EXPECT_EQ(sums.rounds(), 1U) << "others need not wait until its step has ended";
  end_a_late_step();
}

TEST_F(LateDeviceActor, SaysWhyItsStepFailed) {
  begin();
  give_all_weights(0);
  give_batch(unlucky_batch);
  EXPECT_THAT(coordinator_.heard<worker_failed>(), IsEmpty());
  end_a_late_step();
  ASSERT_THAT(coordinator_.heard<worker_failed>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_failed>()[0].why, "dense1: no memory for such a batch");
  EXPECT_EQ(coordinator_.heard<worker_failed>()[0].step, 1U);
}

TEST_F(LateDeviceActor, SaysThatItWaitsForItsStep) {
  begin();
  give_all_weights(0);
  give_batch();
  const auto waits = ask<wait_named>(device_, name_waits{}).heard<wait_named>();
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].what, "worker 3 waits for a late step");
  end_a_late_step();
}

TEST_F(LateDeviceActor, WritesIntoTheSharedBlockWhenItsStepHasEnded) {
  begin(0, true);
  give_batch();
  EXPECT_EQ(store_->version(), 0U);
  end_a_late_step();
  EXPECT_EQ(store_->version(), 1U);
}

TEST_F(DeviceActor, TakesNoPartBeforeItHasASeatIfItIsLate) {
  life_ = 2;
  begin();
  ASSERT_THAT(coordinator_.heard<worker_joined>(), SizeIs(1));
  EXPECT_TRUE(coordinator_.heard<worker_joined>()[0].late);
  EXPECT_THAT(shards_[0].heard<join_shard>(), IsEmpty());
  EXPECT_EQ(batches_asked_for(), 0U);
  tell(device_, seat_given{});
  ASSERT_THAT(shards_[0].heard<join_shard>(), SizeIs(1));
  EXPECT_EQ(shards_[0].heard<join_shard>()[0].life, incarnation{2});
  ASSERT_EQ(batches_asked_for(), 1U);
  EXPECT_EQ(feeder_.heard<next_batch>()[0].life, incarnation{2});
}

TEST_F(DeviceActor, AnswersForItsBooksBeforeItHasASeat) {
  life_ = 2;
  begin();
  const auto books = ask<worker_books>(device_, copy_books{}).heard<worker_books>();
  ASSERT_THAT(books, SizeIs(1));
  EXPECT_EQ(books[0].so_far.worker, rank{3});
  EXPECT_EQ(books[0].so_far.steps, 0U);
}

/// It adds to what earlier incarnations did, and tells shards and feeder what it did itself.
TEST_F(DeviceActor, GoesOnCountingWhereTheIncarnationBeforeEnded) {
  life_ = 1;
  begin();
  seat_given seat;
  seat.so_far.worker = {3};
  seat.so_far.steps = seat.so_far.produced = 7;
  seat.so_far.samples = 28;
  tell(device_, seat);
  give_all_weights(9);
  give_batch();
  ASSERT_THAT(pushed_to(0), SizeIs(1));
  EXPECT_EQ(pushed_to(0)[0].header.id.step, step_number{1});
  EXPECT_EQ(pushed_to(0)[0].header.batches, 1U);
  tell(device_, data_exhausted{});
  give_all_weights(10);
  ASSERT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
  const worker_finished& end = coordinator_.heard<worker_finished>()[0];
  EXPECT_EQ(end.life, incarnation{1});
  EXPECT_EQ(end.report.steps, 8U);
  EXPECT_EQ(end.report.produced, 8U);
  EXPECT_EQ(end.report.samples, 32U);
  EXPECT_EQ(end.why_left, "");
}

TEST_F(DeviceActor, JoinsInTheEpochOfItsSeat) {
  life_ = 1;
  begin();
  tell(device_, seat_given{{4}, {}, 0});
  give_all_weights(0); // of epoch 0
  give_batch();
  EXPECT_THAT(pushed_to(0), IsEmpty());
}

TEST_F(DeviceActor, LeavesAfterTheStepUnderWayAndGivesItsNextBatchBack) {
  begin();
  give_all_weights(0);
  give_batch();
  give_batch();
  tell(device_, leave_run{});
  EXPECT_THAT(coordinator_.heard<worker_finished>(), IsEmpty()) << "its gradient is not answered";
  give_all_weights(1);
  ASSERT_THAT(coordinator_.heard<worker_finished>(), SizeIs(1));
  EXPECT_NE(coordinator_.heard<worker_finished>()[0].why_left, "");
  EXPECT_THAT(pushed_to(0), SizeIs(1));
  ASSERT_THAT(feeder_.heard<deal_again>(), SizeIs(1));
  EXPECT_EQ(feeder_.heard<deal_again>()[0].trained, 1U);
  EXPECT_THAT(feeder_.heard<worker_left>(), SizeIs(1));
  EXPECT_THAT(shards_[1].heard<worker_left>(), SizeIs(1));
}

TEST_F(DeviceActor, LeavesWithoutAWordIfItHasNoSeat) {
  life_ = 1;
  begin();
  tell(device_, leave_run{});
  tell(device_, seat_given{});
  EXPECT_THAT(shards_[0].heard<join_shard>(), IsEmpty());
}

} // namespace
} // namespace mailgrad
