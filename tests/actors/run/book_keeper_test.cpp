#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/coordinator.hpp>
#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::Pair;
using ::testing::SizeIs;

/// A coordinator of two workers and two shards, all played by probes.
class BookKeeper : public testing::DeterministicTest {
protected:
  struct told {
    std::uint64_t request = 0;
    run_outcome books;
  };
  using device_probe = testing::listener<copy_books, give_up>;
  using shard_probe = testing::listener<copy_books, worker_left, report_shard>;

  void begin(bool shards_tell = true, std::vector<worker_report> before = {}) {
    coordinator_options options;
    options.books = std::move(before);
    options.workers = 2;
    for (const shard_probe& s : shards_) options.shards.push_back(s.actor());
    options.feeder = feeder_.actor();
    options.time = time_;
    options.on_end = [this](const run_outcome&) { ++ended_; };
    options.on_books = [this](std::uint64_t request, const run_outcome& books) {
      told_.push_back({request, books});
    };
    options.shards_tell_books = shards_tell;
    coordinator_ = start<coordinator>(std::move(options));
    for (std::uint32_t r = 0; r < 2; ++r) tell(coordinator_, worker_joined{{r}, devices_[r].actor()});
  }
  void answer_worker(std::uint32_t r, std::uint64_t produced) {
    worker_report w;
    w.worker = {r};
    w.steps = w.produced = produced;
    tell(coordinator_, worker_books{w});
  }
  void answer_shard(std::uint32_t s, std::uint64_t version) {
    worker_account account;
    account.ledger.produced = account.ledger.applied = account.last_step.value = version;
    tell(coordinator_, shard_books{{{s}, {version}, {account, {}}, {}, {}}});
  }
  std::size_t questions_to_device(std::uint32_t r) { return devices_[r].heard<copy_books>().size(); }

  int ended_ = 0;
  std::vector<told> told_;
  std::array<shard_probe, 2> shards_{listen<copy_books, worker_left, report_shard>(),
                                     listen<copy_books, worker_left, report_shard>()};
  std::array<device_probe, 2> devices_{listen<copy_books, give_up>(), listen<copy_books, give_up>()};
  testing::listener<stop_dealing, worker_left> feeder_ = listen<stop_dealing, worker_left>();
  caf::actor coordinator_;
};

TEST_F(BookKeeper, TellsTheBooksWhenEveryActorHasAnswered) {
  begin();
  tell(coordinator_, gather_books{1});
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<copy_books>(), SizeIs(1));
  answer_worker(0, 5);
  answer_worker(1, 4);
  answer_shard(0, 8);
  EXPECT_THAT(told_, IsEmpty());
  answer_shard(1, 7);
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_EQ(told_[0].request, 1U);
  EXPECT_EQ(told_[0].books.how, run_outcome::ending::running);
  EXPECT_EQ(told_[0].books.workers[1].produced, 4U);
  EXPECT_EQ(told_[0].books.shards[1].version.value, 7U);
  EXPECT_EQ(ended_, 0);
}

TEST_F(BookKeeper, TakesNoCopyOfAWorkerThatHasNoSlot) {
  begin();
  tell(coordinator_, gather_books{1});
  answer_worker(1'000'000, 5);
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(BookKeeper, TellsWhatIsKnownToWhoeverWillWaitNoLonger) {
  begin();
  tell(coordinator_, gather_books{1});
  answer_worker(1, 4);
  answer_shard(1, 7);
  tell(coordinator_, tell_books{1});
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_THAT(told_[0].books.unreported, ElementsAre(true, false));
  ASSERT_THAT(told_[0].books.shards, SizeIs(1)) << "the other has told nothing";
  EXPECT_EQ(told_[0].books.shards[0].shard.value, 1U);
}

TEST_F(BookKeeper, AwaitsNothingMoreOfALostWorker) {
  begin();
  messaging::kill(devices_[1].actor());
  run();
  tell(coordinator_, gather_books{1});
  answer_worker(0, 4);
  tell(coordinator_, tell_books{1});
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_THAT(told_[0].books.unreported, ElementsAre(false, false))
      << "or the waits of the others stay unknown";
  EXPECT_TRUE(told_[0].books.lost[1]);
}

/// As of the frozen shard of a run: the figures that are told are not of this moment.
TEST_F(BookKeeper, SaysWhichShardsHaveNotAnsweredAndHowOldTheirBooksAre) {
  const auto late = [this] {
    std::vector<std::pair<std::uint32_t, std::optional<double>>> all;
    for (const late_figures& x : told_.back().books.late) all.emplace_back(x.shard, x.seconds_old);
    return all;
  };
  begin();
  for (std::uint32_t r = 0; r < 2; ++r) answer_worker(r, 5);
  tell(coordinator_, gather_books{1});
  answer_shard(1, 7);
  tell(coordinator_, tell_books{1});
  EXPECT_THAT(late(), ElementsAre(Pair(0, std::nullopt))) << "it has told nothing";
  answer_shard(0, 8);
  tell(coordinator_, tell_books{1});
  EXPECT_THAT(late(), IsEmpty());
  time_->advance(std::chrono::milliseconds{300});
  tell(coordinator_, gather_books{2});
  time_->advance(std::chrono::milliseconds{500});
  answer_shard(0, 9);
  tell(coordinator_, tell_books{2});
  EXPECT_THAT(late(), ElementsAre(Pair(1, Optional(DoubleEq(0.8)))));
  messaging::kill(shards_[0].actor());
  run();
  tell(coordinator_, tell_books{2});
  EXPECT_THAT(late(), ElementsAre(Pair(0, Optional(DoubleEq(0))), Pair(1, Optional(DoubleEq(0.8)))))
      << "the copy of a lost one stays as it is";
}

TEST_F(BookKeeper, TellsTheBooksOfEarlierProcessesOfWhoHasToldNothing) {
  std::vector<worker_report> before(2);
  before[0].steps = 50;
  before[1].steps = 40;
  begin(true, before);
  tell(coordinator_, gather_books{1});
  answer_worker(0, 51);
  tell(coordinator_, tell_books{1});
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_EQ(told_[0].books.workers[0].steps, 51U);
  EXPECT_EQ(told_[0].books.workers[1].steps, 40U);
  EXPECT_THAT(told_[0].books.unreported, ElementsAre(false, true));
}

/// A device that computes a long step answers after it, so its mailbox must not fill meanwhile.
TEST_F(BookKeeper, AsksNobodyTwiceBeforeAnAnswer) {
  begin();
  for (std::uint64_t request = 1; request <= 3; ++request) tell(coordinator_, gather_books{request});
  EXPECT_EQ(questions_to_device(0), 1U);
  for (std::uint32_t i = 0; i < 2; ++i) {
    answer_worker(i, 5);
    answer_shard(i, 5);
  }
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_EQ(told_[0].request, 3U) << "it answers all three";
  tell(coordinator_, gather_books{4});
  EXPECT_EQ(questions_to_device(0), 2U);
}

TEST_F(BookKeeper, TakesTheLastReportOfAWorkerForItsAnswer) {
  begin();
  tell(coordinator_, gather_books{1});
  answer_worker(0, 5);
  answer_shard(0, 9);
  answer_shard(1, 9);
  worker_report last;
  last.worker = {1};
  last.produced = 4;
  tell(coordinator_, worker_finished{last});
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_EQ(told_[0].books.workers[1].produced, 4U);
  answer_worker(1, 3);
  tell(coordinator_, tell_books{2});
  EXPECT_EQ(told_[1].books.workers[1].produced, 4U) << "an older copy came later";
  tell(coordinator_, gather_books{3});
  EXPECT_EQ(questions_to_device(1), 1U) << "it has ended";
}

TEST_F(BookKeeper, WaitsForNoActorThatDied) {
  begin();
  answer_worker(1, 3); // what it told an earlier request
  tell(coordinator_, gather_books{1});
  answer_worker(0, 5);
  answer_shard(0, 5);
  messaging::kill(devices_[1].actor());
  run();
  EXPECT_THAT(told_, IsEmpty());
  messaging::kill(shards_[1].actor());
  run();
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_THAT(told_[0].books.lost, ElementsAre(false, true));
  EXPECT_EQ(told_[0].books.workers[1].produced, 3U) << "its last copy stays";
}

/// Its report is what is told of it until the run has ended, and nobody waits for it.
TEST_F(BookKeeper, CountsAShardThatFailsAfterItsReportOnce) {
  begin();
  tell(coordinator_, gather_books{1});
  for (std::uint32_t r = 0; r < 2; ++r) {
    answer_worker(r, 5);
    answer_shard(r, 8);
    worker_report end;
    end.worker = {r};
    tell(coordinator_, worker_finished{end});
  }
  ASSERT_THAT(told_, SizeIs(1));
  tell(coordinator_, gather_books{2}); // the shards have still to answer
  EXPECT_THAT(told_, SizeIs(1));
  worker_account account;
  account.ledger.produced = account.ledger.applied = 10;
  tell(coordinator_, shard_report{{0}, {10}, {account, {}}, {}, {}});
  mailgrad::messaging::kill(shards_[0].actor());
  run();
  answer_shard(0, 8); // was under way
  answer_shard(1, 9);
  ASSERT_THAT(told_, SizeIs(2));
  ASSERT_THAT(told_[1].books.shards, SizeIs(2));
  EXPECT_EQ(told_[1].books.shards[0].version.value, 10U);
  EXPECT_EQ(told_[1].books.shards[0].workers[0].ledger.produced, 10U);
  EXPECT_EQ(ended_, 0);
  tell(coordinator_, gather_books{3});
  answer_shard(1, 9);
  ASSERT_THAT(told_, SizeIs(3)) << "the first shard is not asked";
  tell(coordinator_, shard_report{{1}, {9}, {account, {}}, {}, {}});
  EXPECT_EQ(ended_, 1);
}

TEST_F(BookKeeper, AsksNoShardThatIsNotOurs) {
  begin(false);
  tell(coordinator_, gather_books{1});
  EXPECT_THAT(shards_[0].heard<copy_books>(), IsEmpty());
  answer_worker(0, 5);
  answer_worker(1, 4);
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_THAT(told_[0].books.shards, IsEmpty());
}

/// Real actors under every order of messages that this seed draws: at each moment the books are sound.
class BooksOfARun : public testing::DeterministicTest, public ::testing::WithParamInterface<const char*> {
protected:
  ~BooksOfARun() override { run(); } // while what the callbacks refer to is there
};

TEST_P(BooksOfARun, CountNoGradientTwiceAtAnyMoment) {
  training_options o;
  o.devices.assign(3, {device_kind::cpu, 0});
  o.policy = GetParam();
  o.batch = 8;
  o.steps = 24;
  o.shards = 2;
  std::vector<run_outcome> told;
  std::optional<run_outcome> ended;
  run_crew_options options{time_};
  options.coordinator_has_thread = false;
  options.on_end = [&](run_outcome outcome) { ended = std::move(outcome); };
  options.on_books = [&](std::uint64_t, const run_outcome& books) { told.push_back(books); };
  run_crew crew(system(), plan_run(testing::small_model(), testing::small_data(), o), options);
  const auto written = [&] { return crew.store() ? std::optional(crew.store()->version()) : std::nullopt; };
  for (std::uint64_t request = 1; !ended; ++request) {
    messaging::send_anonymously(crew.coordinator(), gather_books{request});
    for (int i = 0; i < 7 && step(); ++i) {
    }
  }
  run();
  EXPECT_GT(told.size(), 2U);
  std::uint64_t accounted = 0;
  for (const run_outcome& books : told) {
    const training_report r = report_so_far(books, {}, written());
    EXPECT_EQ(r.ended, "running");
    EXPECT_EQ(r.why, "");
    EXPECT_GE(r.ledger.produced, r.ledger.accounted_for()) << to_string(r.ledger);
    EXPECT_GE(r.ledger.accounted_for(), accounted) << "nothing is forgotten";
    accounted = r.ledger.accounted_for();
    for (const shard_report& s : books.shards) EXPECT_FALSE(s.values) << "no weights are copied";
  }
  EXPECT_LE(accounted, report_of(*ended, written()).ledger.accounted_for());
  crew.give_up();
  run();
}

INSTANTIATE_TEST_SUITE_P(Policies, BooksOfARun,
                         ::testing::Values("async", "sync", "ssp:1", "k-batch-sync:1", "hogwild",
                                           "async, sync@9", "async, hogwild@9"));

} // namespace
} // namespace mailgrad
