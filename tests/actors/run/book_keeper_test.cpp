#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/actors/run/run_state.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/tests/actors/run/coordinator_fixture.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::DoubleEq, ::testing::ElementsAre, ::testing::IsEmpty, ::testing::Optional, ::testing::Pair,
    ::testing::SizeIs;
using testing::only;

class BookKeeper : public testing::CoordinatorTest {
protected:
  struct told {
    std::uint64_t request = 0;
    run_outcome books;
  };

  void begin(bool shards_tell = true, const std::vector<worker_report>& before = {}) {
    start_coordinator([&](coordinator_options& o) {
      o.books = before;
      o.shards_tell_books = shards_tell;
      o.on_books = [this](std::uint64_t request, const run_outcome& books) {
        told_.push_back({request, books});
      };
    });
    join();
  }
  void gather(std::uint64_t request = 1) { tell(coordinator_, gather_books{request}); }
  /// Somebody will wait no longer for what was asked for.
  const run_outcome& books_so_far(std::uint64_t request = 1) {
    tell(coordinator_, tell_books{request});
    return told_.back().books;
  }
  void answer_worker(std::uint32_t r, std::uint64_t produced) {
    tell(coordinator_, worker_books{report_of(r, produced)});
  }
  static worker_account account_of(std::uint64_t gradients) {
    worker_account account;
    account.ledger.produced = account.ledger.applied = account.last_step.value = gradients;
    return account;
  }
  void answer_shard(std::uint32_t s, std::uint64_t version) {
    tell(coordinator_, shard_books{{{s}, {version}, {account_of(version), {}}, {}, {}}});
  }
  std::size_t questions_to_device(std::uint32_t r) { return devices_[r].heard<copy_books>().size(); }

  std::vector<told> told_;
};

TEST_F(BookKeeper, TellsTheBooksWhenEveryActorHasAnswered) {
  begin();
  gather();
  for (shard_probe& s : shards_) EXPECT_THAT(s.heard<copy_books>(), SizeIs(1));
  answer_worker(0, 5);
  answer_worker(1'000'000, 5); // who has no slot
  answer_worker(1, 4);
  answer_shard(0, 8);
  EXPECT_THAT(told_, IsEmpty());
  answer_shard(1, 7);
  EXPECT_EQ(only(told_).request, 1U);
  const run_outcome& books = told_[0].books;
  EXPECT_EQ(books.how, run_outcome::ending::running);
  EXPECT_EQ(books.workers[1].produced, 4U);
  EXPECT_EQ(books.shards[1].version.value, 7U);
  EXPECT_THAT(outcomes_, IsEmpty());
}

TEST_F(BookKeeper, TellsWhatIsKnownToWhoeverWillWaitNoLonger) {
  begin();
  gather();
  answer_worker(1, 4);
  answer_shard(1, 7);
  EXPECT_THAT(books_so_far().unreported, ElementsAre(true, false));
  EXPECT_EQ(only(only(told_).books.shards).shard.value, 1U) << "the other has told nothing";
}

TEST_F(BookKeeper, AwaitsNothingMoreOfALostWorker) {
  begin();
  lose(1);
  gather();
  answer_worker(0, 4);
  EXPECT_THAT(books_so_far().unreported, ElementsAre(false, false)) << "or the waits of others stay unknown";
  EXPECT_TRUE(only(told_).books.lost[1]);
}

/// As of the frozen shard of a run: the figures that are told are not of this moment.
TEST_F(BookKeeper, SaysWhichShardsHaveNotAnsweredAndHowOldTheirBooksAre) {
  const auto late = [this](std::uint64_t request) {
    std::vector<std::pair<std::uint32_t, std::optional<double>>> all;
    for (const late_figures& x : books_so_far(request).late) all.emplace_back(x.shard, x.seconds_old);
    return all;
  };
  begin();
  for (std::uint32_t r = 0; r < 2; ++r) answer_worker(r, 5);
  gather();
  answer_shard(1, 7);
  EXPECT_THAT(late(1), ElementsAre(Pair(0, std::nullopt))) << "it has told nothing";
  answer_shard(0, 8);
  EXPECT_THAT(late(1), IsEmpty());
  time_->advance(300ms);
  gather(2);
  time_->advance(500ms);
  answer_shard(0, 9);
  EXPECT_THAT(late(2), ElementsAre(Pair(1, Optional(DoubleEq(0.8)))));
  kill(shards_[0].actor());
  EXPECT_THAT(late(2), ElementsAre(Pair(0, Optional(DoubleEq(0))), Pair(1, Optional(DoubleEq(0.8)))))
      << "the copy of a lost one stays as it is";
}

TEST_F(BookKeeper, TellsTheBooksOfEarlierProcessesOfWhoHasToldNothing) {
  begin(true, {report_of(0, 50), report_of(1, 40)});
  gather();
  answer_worker(0, 51);
  const run_outcome& books = books_so_far();
  EXPECT_EQ(books.workers[0].steps, 51U);
  EXPECT_EQ(books.workers[1].steps, 40U);
  EXPECT_THAT(books.unreported, ElementsAre(false, true));
  EXPECT_THAT(told_, SizeIs(1));
}

/// A device that computes a long step answers after it, so its mailbox must not fill meanwhile.
TEST_F(BookKeeper, AsksNobodyTwiceBeforeAnAnswer) {
  begin();
  for (std::uint64_t request = 1; request <= 3; ++request) gather(request);
  EXPECT_EQ(questions_to_device(0), 1U);
  for (std::uint32_t i = 0; i < 2; ++i) {
    answer_worker(i, 5);
    answer_shard(i, 5);
  }
  EXPECT_EQ(only(told_).request, 3U) << "it answers all three";
  gather(4);
  EXPECT_EQ(questions_to_device(0), 2U);
}

TEST_F(BookKeeper, TakesTheLastReportOfAWorkerForItsAnswer) {
  begin();
  gather();
  answer_worker(0, 5);
  answer_shard(0, 9);
  answer_shard(1, 9);
  finish(1, 0, 4);
  EXPECT_EQ(only(told_).books.workers[1].produced, 4U);
  answer_worker(1, 3);
  EXPECT_EQ(books_so_far(2).workers[1].produced, 4U) << "an older copy came later";
  gather(3);
  EXPECT_EQ(questions_to_device(1), 1U) << "it has ended";
}

TEST_F(BookKeeper, WaitsForNoActorThatDied) {
  begin();
  answer_worker(1, 3); // what it told an earlier request
  gather();
  answer_worker(0, 5);
  answer_shard(0, 5);
  lose(1);
  EXPECT_THAT(told_, IsEmpty());
  kill(shards_[1].actor());
  EXPECT_THAT(only(told_).books.lost, ElementsAre(false, true));
  EXPECT_EQ(told_[0].books.workers[1].produced, 3U) << "its last copy stays";
}

/// Its report is what is told of it until the run has ended, and nobody waits for it.
TEST_F(BookKeeper, CountsAShardThatFailsAfterItsReportOnce) {
  begin();
  gather();
  for (std::uint32_t r = 0; r < 2; ++r) {
    answer_worker(r, 5);
    answer_shard(r, 8);
    finish(r, 0, 0);
  }
  EXPECT_THAT(told_, SizeIs(1));
  gather(2); // the shards have still to answer
  EXPECT_THAT(told_, SizeIs(1));
  tell(coordinator_, shard_report{{0}, {10}, {account_of(10), {}}, {}, {}});
  kill(shards_[0].actor());
  answer_shard(0, 8); // was under way
  answer_shard(1, 9);
  ASSERT_THAT(told_, SizeIs(2));
  ASSERT_THAT(told_[1].books.shards, SizeIs(2));
  EXPECT_EQ(told_[1].books.shards[0].version.value, 10U);
  EXPECT_EQ(told_[1].books.shards[0].workers[0].ledger.produced, 10U);
  EXPECT_THAT(outcomes_, IsEmpty());
  gather(3);
  answer_shard(1, 9);
  EXPECT_THAT(told_, SizeIs(3)) << "the first shard is not asked";
  tell(coordinator_, shard_report{{1}, {9}, {account_of(10), {}}, {}, {}});
  EXPECT_THAT(outcomes_, SizeIs(1));
}

TEST_F(BookKeeper, AsksNoShardThatIsNotOurs) {
  begin(false);
  gather();
  EXPECT_THAT(shards_[0].heard<copy_books>(), IsEmpty());
  answer_worker(0, 5);
  answer_worker(1, 4);
  EXPECT_THAT(only(told_).books.shards, IsEmpty());
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

/// A coordinator that answers only if the test does.
class StatusCache : public testing::DeterministicTest {
protected:
  static run_outcome books_of_two_shards() {
    run_outcome o;
    o.how = run_outcome::ending::running;
    o.shards.resize(2);
    o.shards[1].shard = {1};
    return o;
  }
  std::optional<run_outcome> asked() { return cache_.ask(coordinator_.actor(), 2ms); }

  testing::listener<gather_books, tell_books> coordinator_ = listen<gather_books, tell_books>();
  status_cache cache_;
};

TEST_F(StatusCache, KnowsNothingBeforeTheFirstAnswer) {
  EXPECT_FALSE(asked());
  run();
  EXPECT_THAT(coordinator_.heard<gather_books>(), SizeIs(1));
  EXPECT_THAT(coordinator_.heard<tell_books>(), SizeIs(1)) << "as far as it knows them";
}

TEST_F(StatusCache, SaysHowOldTheBooksOfAnEarlierQuestionAre) {
  run_outcome books = books_of_two_shards();
  books.late = {{1, 60.0}};
  cache_.take(1, books);
  const auto answered = asked();
  EXPECT_EQ(only(answered->late).seconds_old, 60.0) << "that was its question";
  const auto earlier = asked();
  ASSERT_THAT(earlier->late, SizeIs(2)) << "nobody answers the second one";
  EXPECT_EQ(earlier->late[0].shard, 0U);
  EXPECT_TRUE(earlier->late[0].seconds_old);
  EXPECT_GT(earlier->late[1].seconds_old, 60.0);
}

TEST_F(StatusCache, AgesNoBooksOfARunThatHasEnded) {
  cache_.take(1, books_of_two_shards());
  cache_.close();
  asked();
  EXPECT_THAT(asked()->late, IsEmpty());
}

} // namespace
} // namespace mailgrad
