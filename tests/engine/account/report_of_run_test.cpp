#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/tests/engine/layouts.hpp>

#include <gmock/gmock.h>

#include <bit>
#include <chrono>
#include <optional>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

worker_report worker(std::uint32_t r, std::uint64_t produced, float loss = 1) {
  worker_report w;
  w.worker = {r};
  w.steps = w.produced = produced;
  w.samples = produced * 10;
  for (std::uint64_t step = 0; step < produced; ++step) w.last_losses.add(loss, 10);
  return w;
}

/// What a shard took from a worker whose gradients all had the same gap.
worker_account account(std::uint64_t applied, std::uint64_t gap = 1) {
  worker_account a;
  a.last_step = {applied};
  a.ledger.produced = a.ledger.applied = applied;
  a.gaps.count(gap, applied);
  return a;
}

/// Two workers and two shards; nobody died.
run_outcome quiet_run() {
  run_outcome o;
  o.workers = {worker(0, 6, 0.5F), worker(1, 4, 0.25F)};
  o.lost = {false, false};
  for (std::uint32_t s = 0; s < 2; ++s) o.shards.push_back({s, 10, {account(6, 1), account(4, 2 + s)}, {}});
  return o;
}

TEST(ReportOfRun, CountEachGradientOnceAndItsGapOnEachShard) {
  const training_report r = report_of(quiet_run());
  EXPECT_EQ(r.ended, "completed");
  EXPECT_EQ(r.steps, 10U);
  EXPECT_EQ(r.samples, 100U);
  EXPECT_EQ(r.ledger, (gradient_ledger{10, 10, 0, {}, 0}));
  EXPECT_THAT(r.staleness.buckets(), ElementsAre(Pair(1, 12), Pair(2, 4), Pair(3, 4)));
  ASSERT_EQ(r.exchanges.size(), 4U);
  EXPECT_EQ(r.exchanges[3].shard, 1U);
  EXPECT_EQ(r.exchanges[3].worker, 1U);
  EXPECT_THAT(r.exchanges[3].gaps.buckets(), ElementsAre(Pair(3, 4)));
  EXPECT_THAT(final_progress(quiet_run(), 3s),
              AllOf(Field(&training_progress::steps, 10), Field(&training_progress::samples, 100),
                    Field(&training_progress::loss, DoubleEq(0.4)),
                    Field(&training_progress::staleness_mean, DoubleEq(1.6)),
                    Field(&training_progress::elapsed, 3s)));
}

TEST(ReportOfRun, CountTheGapsOfWhatWasDiscardedApart) {
  run_outcome o = quiet_run();
  o.shards[0].workers[1].discarded_gaps.count(7, 2);
  o.shards[1].workers[0].discarded_gaps.count(9, 1);
  EXPECT_THAT(report_of(o).discarded_staleness.buckets(), ElementsAre(Pair(7, 2), Pair(9, 1)));
  EXPECT_EQ(report_of(o).staleness.total(), 20U);
}

TEST(ReportOfRun, AverageTheFactorsOfACureByItsGaps) {
  staleness_histogram gaps;
  const auto inverse = make_cure("inverse", {2});
  EXPECT_FALSE(mean_factor(*inverse, gaps)) << "no gradient had one";
  gaps.count(1, 2);
  gaps.count(4, 2);
  EXPECT_EQ(mean_factor(*inverse, gaps), 0.625);
  EXPECT_FALSE(mean_factor(*make_cure("dc-asgd", {2}), gaps)) << "it leaves steps as long as they are";
}

TEST(ReportOfRun, SayWhatIsLostWithAShardBehindTheReasonIfThereIsOne) {
  run_outcome o = quiet_run();
  o.how = run_outcome::ending::failed;
  o.shards[1] = {1, 0, {}, {}};
  const std::string words = "lost with shard 1: its weights, and what it had made of 10 gradients";
  EXPECT_THAT(report_of(o).why, StartsWith(words));
  o.why = "shard 1 is lost";
  EXPECT_THAT(report_of(o).why, StartsWith("shard 1 is lost; " + words));
}

TEST(ReportOfRun, AverageTheLastLossesByTheirSamples) {
  run_outcome o = quiet_run();
  EXPECT_DOUBLE_EQ(report_of(o).final_loss.value(), 0.4) << "60 samples at 0.5, and 40 at 0.25";
  o.workers[0].last_losses = {};
  EXPECT_DOUBLE_EQ(report_of(o).final_loss.value(), 0.25);
  o.workers[1].last_losses = {};
  EXPECT_FALSE(report_of(o).final_loss) << "unknown is not 0";
  o.workers = {worker(0, 1000, 0.3F), worker(1, 1, 2.3F)};
  EXPECT_NEAR(report_of(o).final_loss.value(), 0.36, 0.001) << "a starved worker counts little";
}

TEST(ReportOfRun, KeepTheBooksOfHogwildWhichHasNoShards) {
  run_outcome o;
  o.workers = {worker(0, 6), worker(1, 4)};
  o.lost = {false, false};
  for (worker_report& w : o.workers) {
    w.applied = w.produced;
    w.gaps.count(w.worker.value, w.produced);
  }
  EXPECT_EQ(report_of(o).ledger, (gradient_ledger{10, 10, 0, {}, 0}));
  EXPECT_THAT(report_of(o).staleness.buckets(), ElementsAre(Pair(0, 6), Pair(1, 4)));
  o.workers[1] = {};
  o.lost = {false, true};
  EXPECT_EQ(report_of(o, 9).ledger, (gradient_ledger{9, 9, 0, {}, 0})) << "the block tells of the lost one";
}

TEST(ReportOfRun, KeepWhatHogwildWroteInAMixedRunBesideWhatShardsTook) {
  run_outcome o = quiet_run();
  worker_report& writer = o.workers[0];
  writer.produced += 3;
  writer.applied = 3;
  writer.gaps.count(5, 3);
  writer.times.compute.add(2ms);
  o.shards[0].workers[0].times.compute.add(1ms);
  const training_report r = report_of(o, 3);
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  std::uint64_t listed = 0;
  for (const exchange_figures& x : r.exchanges) listed += x.gaps.total();
  EXPECT_EQ(listed, r.staleness.total()) << "the books by worker tell less than the whole";
  EXPECT_FALSE(r.exchanges.back().shard) << "no shard saw what went into the block";
  EXPECT_THAT(r.exchanges.back().gaps.buckets(), ElementsAre(Pair(5, 3)));
  EXPECT_EQ(r.times.compute.count(), 2U);
}

TEST(ReportOfRun, FailARunWhoseLedgerDoesNotBalance) {
  run_outcome o = quiet_run();
  o.shards[0].workers[0] = account(7);
  o.shards[1].workers[1] = account(3);
  training_report r = report_of(o);
  EXPECT_EQ(r.ended, "failed");
  EXPECT_EQ(r.why,
            "the ledger does not balance: shard 0 took 7 gradients of worker 0, which sent 6, and 1 more "
            "like it");
  o.how = run_outcome::ending::diverged;
  o.why = "the loss is not finite";
  r = report_of(o);
  EXPECT_EQ(r.ended, "diverged") << "the first reason stays";
  EXPECT_TRUE(r.why.starts_with("the loss is not finite; the ledger")) << r.why;
}

TEST(ReportOfRun, JoinWhatTheShardsHold) {
  const parameter_layout layout = testing::layout_of({{"w", {64}}}, 2);
  run_outcome o = quiet_run();
  for (shard_report& s : o.shards) {
    auto values = std::make_shared<memory>(block(layout.shard(s.shard.value).size() * sizeof(float)));
    std::ranges::fill(values->on_host<float>(), static_cast<float>(s.shard.value + 1));
    s.values = snapshot(values);
  }
  const std::vector<float> joined = joined_weights(o, layout).value();
  ASSERT_EQ(joined.size(), layout.size());
  EXPECT_EQ(joined.front(), 1);
  EXPECT_EQ(joined.back(), 2);
  o.shards[0].values.reset();
  EXPECT_FALSE(joined_weights(o, layout)) << "a part of the weights is not the weights";
}

TEST(ReportOfRun, SumTheWaitsOfAllWorkers) {
  run_outcome o = quiet_run();
  o.workers[0].barrier_wait = instant{1500ms}.count();
  o.workers[1].barrier_wait = instant{500ms}.count();
  o.workers[1].feeder_wait = instant{250ms}.count();
  o.workers[0].bound_wait = instant{750ms}.count();
  o.workers[1].bound_wait = instant{250ms}.count();
  const training_report r = report_of(o);
  EXPECT_DOUBLE_EQ(r.waits.barrier, 2);
  EXPECT_DOUBLE_EQ(r.waits.feeder, 0.25);
  EXPECT_DOUBLE_EQ(r.waits.bound, 1);
  ASSERT_EQ(r.worker_waits.size(), 2U);
  EXPECT_DOUBLE_EQ(r.worker_waits[0].bound, 0.75);
  EXPECT_DOUBLE_EQ(r.worker_waits[0].barrier, 1.5);
  EXPECT_DOUBLE_EQ(r.worker_waits[1].feeder, 0.25);
}

TEST(ReportOfRun, NameEveryEnding) {
  using ending = run_outcome::ending;
  run_outcome o = quiet_run();
  for (const auto& [how, word] :
       {std::pair{ending::completed, "completed"}, std::pair{ending::stopped, "stopped"},
        std::pair{ending::diverged, "diverged"}, std::pair{ending::failed, "failed"}}) {
    o.how = how;
    o.why = word;
    EXPECT_EQ(report_of(o).ended, word);
    EXPECT_EQ(report_of(o).why, word);
  }
  o = run_outcome{};
  o.untrained = 3;
  o.why = "nobody was left";
  EXPECT_EQ(report_of(o).ended, "failed") << "nobody was left to train it";
  EXPECT_EQ(report_of(o).why, "nobody was left");
  o.how = ending::stopped;
  EXPECT_EQ(report_of(o).ended, "stopped");
}

/// What was switched before a run was resumed has no time on the clock of this process.
TEST(ReportOfRun, ShowsOnItsTimelineWhatThisProcessDid) {
  run_outcome o = quiet_run();
  o.switches = {{5, "async", "sync", "early"}, {9, "sync", "async", "late", 20s, 21s}};
  o.checkpoint_timeline = {{1, 22s, 23s, 24s, checkpoint_times::fate::written, 9, "file", 10, {}}};
  const run_trace trace = trace_of(o, 10s, 30s);
  EXPECT_THAT(trace.switches, ElementsAre(Field(&policy_switch::why, "late")));
  EXPECT_THAT(trace.checkpoints, ElementsAre(Field(&checkpoint_times::file, "file")));
}

TEST(ReportOfRun, ShowsOnItsTimelineWhatWorkersOfOtherProcessesTold) {
  const auto track_of = [](const char* name, std::size_t events) {
    auto t = std::make_shared<trace_track>(name, events, 10s);
    for (std::size_t i = 0; i < events; ++i) t->work({trace_kind::compute, 11s, 12s});
    return t;
  };
  run_outcome o = quiet_run();
  o.shards[0].trace = track_of("shard 0", 1);
  o.workers[0].trace = track_of("worker 0 on cpu:0", 1);
  const auto worker = timeline_teller::of(rank{1}, {});
  o.told = {{worker, track_of("lost", 2), {0s, 1ms}, false},
            {worker, track_of("came to nothing", 0), {0s, 1ms}, false},
            {worker, track_of("came", 1), {0s, 2ms}, true},
            {timeline_teller::of(shard_index{1}), track_of("shard 1", 1), {0s, 3ms}, true}};
  const run_trace trace = trace_of(o, 10s, 30s);
  std::vector<std::string> names;
  for (const auto& t : trace.tracks) names.push_back(t->name());
  EXPECT_THAT(names, ElementsAreArray({"worker 0 on cpu:0", "lost", "came", "shard 0", "shard 1"}));
  EXPECT_THAT(trace.lost, ElementsAre("came to nothing"));
  ASSERT_EQ(trace.clocks.size(), 3U);
  EXPECT_EQ(trace.clocks[0].lost_after, 12s);
  EXPECT_EQ(trace.clocks[1].clock.uncertainty, 2ms);
  EXPECT_FALSE(trace.clocks[1].lost_after);
  EXPECT_EQ(trace.clocks[2].name, "shard 1");
  EXPECT_THAT(trace.silent, IsEmpty());
  o.told.pop_back();
  EXPECT_THAT(trace_of(o, 10s, 30s).silent, ElementsAre("shard 1")) << "it has reported, without a timeline";
}

TEST(ReportOfRun, SayInWordsHowLongAWaitIs) {
  EXPECT_EQ(in_words(wait_reason{"worker 0 waits for a batch", instant{2100ms}.count()}),
            "worker 0 waits for a batch, for 2.1 s");
}

TEST(ReportOfRun, CountsStepsAndSamplesOfOneMomentWhileTheRunGoesOn) {
  run_outcome books = nothing_told(1);
  books.workers[0].steps = books.workers[0].produced = 10;
  books.workers[0].samples = 40;
  books.shards.resize(1);
  books.shards[0].workers.resize(1);
  books.shards[0].workers[0].ledger.produced = books.shards[0].workers[0].ledger.applied = 12;
  const training_report later = report_so_far(books, {.steps = 7, .samples = 28}, {});
  EXPECT_EQ(later.steps, 10U);
  EXPECT_EQ(later.samples, 40U) << "the shard is further, and knows no samples";
  const training_report told = report_so_far(books, {.steps = 14, .samples = 56}, {});
  EXPECT_EQ(told.steps, 14U);
  EXPECT_EQ(told.samples, 56U);
}

TEST(ReportOfRun, CountsTheWorkersThatCameLater) {
  run_outcome o = nothing_told(1);
  o.shards.resize(1);
  o.shards[0].workers.resize(3); // a shard has heard of the third sooner than the coordinator
  EXPECT_EQ(report_of(o, {}).workers, 3U);
}

TEST(ReportOfRun, LeavesOutWhatNobodyHasToldWhileTheRunGoesOn) {
  const training_report r = report_so_far(nothing_told(2), {.steps = 7, .samples = 70}, 3);
  EXPECT_EQ(r.ended, "running");
  EXPECT_EQ(r.steps, 7U) << "what the progress display knows";
  EXPECT_EQ(r.samples, 70U);
  EXPECT_EQ(r.updates, 3U);
  EXPECT_TRUE(r.exchanges.empty());
  EXPECT_TRUE(r.worker_waits.empty());
  EXPECT_FALSE(r.final_loss);
}

/// The ledger of a run is that of the shard that lost most, which says nothing of what the others applied.
TEST(ReportOfRun, HasTheLedgerOfAShardThatIsLeftBesideThatOfALostOne) {
  EXPECT_FALSE(report_of(quiet_run()).kept_ledger);
  run_outcome o = quiet_run();
  o.how = run_outcome::ending::failed;
  o.shards[1] = {}; // it has not said which it is
  const training_report r = report_of(o);
  EXPECT_EQ(r.ledger, (gradient_ledger{10, 0, 0, {}, 10}));
  ASSERT_TRUE(r.kept_ledger);
  EXPECT_EQ(r.kept_ledger->shard, 0U);
  EXPECT_EQ(r.kept_ledger->counts, (gradient_ledger{10, 10, 0, {}, 0}));
  o.shards[0].workers[0].ledger.applied = 5;
  EXPECT_FALSE(report_of(o).kept_ledger) << "a ledger that does not balance is that of the run";
  o.shards[0] = {0, 0, {}, {}};
  EXPECT_FALSE(report_of(o).kept_ledger) << "none is left";
}

TEST(ReportSoFarOfBooks, KnowsNoLedgerWhileNoShardHasToldIts) {
  const auto of = [](const run_outcome& books) {
    training_report r = report_so_far(books, {.steps = 7, .samples = 70});
    r.shards = 2;
    return r;
  };
  EXPECT_FALSE(of(nothing_told(2, 2)).knows_ledger());
  run_outcome books = quiet_run();
  books.how = run_outcome::ending::running;
  EXPECT_TRUE(of(books).knows_ledger());
  books.late = {{0, {}}, {1, 0.8}};
  EXPECT_TRUE(of(books).knows_ledger()) << "an old one";
  EXPECT_EQ(of(books).late.size(), 2U);
}

/// A worker of hogwild, which applies what it produces.
worker_report writer(std::uint32_t r, std::uint64_t produced) {
  worker_report w = worker(r, produced);
  w.applied = produced;
  return w;
}

/// Hogwild with a worker that made six updates and, unless it is lost, one that made four.
run_outcome hogwild_run(bool lost) {
  run_outcome o;
  o.workers = {writer(0, 6), lost ? worker_report{} : writer(1, 4)};
  o.lost = {false, lost};
  return o;
}

/// It is lost before it reports.
void lose_worker_1(run_outcome& o) {
  o.workers[1] = worker_report{};
  o.lost[1] = true;
}

/// Books of a run, and what an audit of them finds.
struct audited_books {
  const char* what;
  void (*change)(run_outcome&); ///< to those of the quiet run
  gradient_ledger ledger;
  std::vector<std::string> contradictions{};
  std::optional<std::uint64_t> in_block{};
};

void expect_audited(std::initializer_list<audited_books> all) {
  for (const audited_books& books : all) {
    SCOPED_TRACE(books.what);
    run_outcome o = quiet_run();
    books.change(o);
    const audited_ledger found = audit(o, books.in_block);
    EXPECT_EQ(found.ledger, books.ledger) << to_string(found.ledger);
    EXPECT_EQ(found.contradictions, books.contradictions);
  }
}

TEST(LedgerAudit, NamesWorkerAndShardWhereBothEndsContradictEachOther) {
  expect_audited({{"all is accounted for", [](auto&) {}, {10, 10}},
                  {"taken twice",
                   [](auto& o) { o.shards[1].workers[0] = account(7); },
                   {10, 11},
                   {"shard 1 took 7 gradients of worker 0, which sent 6"}},
                  {"vanished; nobody died, so nothing may be called lost",
                   [](auto& o) { o.shards[0].workers[1] = account(3); },
                   {10, 9},
                   {"shard 0 took 3 gradients of worker 1, which sent 4"}},
                  {"a loss and a double that cancel out",
                   [](auto& o) {
                     for (shard_report& s : o.shards) s.workers = {account(7), account(3)};
                   },
                   {10, 10},
                   {"shard 0 took 7 gradients of worker 0, which sent 6",
                    "shard 0 took 3 gradients of worker 1, which sent 4",
                    "shard 1 took 7 gradients of worker 0, which sent 6",
                    "shard 1 took 3 gradients of worker 1, which sent 4"}},
                  {"two fates",
                   [](auto& o) { ++o.shards[0].workers[0].ledger.applied; },
                   {10, 11},
                   {"shard 0 took 6 gradients of worker 0, and accounts for 7"}},
                  {"no fate",
                   [](auto& o) { --o.shards[0].workers[1].ledger.applied; },
                   {10, 9},
                   {"shard 0 took 4 gradients of worker 1, and accounts for 3"}},
                  {"an account is left out by a user's parameter actor",
                   [](auto& o) { o.shards[0].workers.pop_back(); },
                   {10, 6},
                   {"shard 0 took 0 gradients of worker 1, which sent 4"}},
                  {"all accounts are left out",
                   [](auto& o) {
                     o.shards[0].workers.clear();
                     o.shards[0].values = snapshot(std::make_shared<const memory>());
                   },
                   {10, 0},
                   {"shard 0 took 0 gradients of worker 0, which sent 6",
                    "shard 0 took 0 gradients of worker 1, which sent 4"}}});
}

TEST(LedgerAudit, CountsWhatWasDiscardedOrNeverJudged) {
  const auto leave_unjudged = [](run_outcome& o) {
    o.shards[1].workers[1].ledger = {4, 3, 0, {}, 1};
    o.shards[1].workers[1].unjudged = 1;
  };
  expect_audited(
      {{"dropped by a worker",
        [](auto& o) {
          ++o.workers[0].produced;
          o.workers[0].not_finite = 1;
        },
        {11, 10, 0, {{"not finite", 1}}}},
       {"dropped by each shard",
        [](auto& o) {
          for (shard_report& s : o.shards) s.workers[1].ledger = {4, 3, 0, {{"not awaited", 1}}};
        },
        {10, 9, 0, {{"not awaited", 1}}}},
       {"in a batch that was never complete",
        [](auto& o) {
          for (shard_report& s : o.shards) s.workers[1].ledger = {4, 2, 0, {}, 2};
        },
        {10, 8, 0, {}, 2}},
       {"never judged", leave_unjudged, {10, 9, 0, {}, 1}, {"shard 1 never judged 1 gradient of worker 1"}},
       {"an order that ends early leaves some",
        [](auto& o) {
          o.shards[1].workers[1].ledger = {4, 3, 0, {}, 1};
          o.shards[1].workers[1].unjudged = 1;
          o.how = run_outcome::ending::stopped;
        },
        {10, 9, 0, {}, 1}}});
}

TEST(LedgerAudit, LetsThoseWhoAreLostTakeGradientsAlongButCountsNoneTwice) {
  expect_audited({{"the shards tell of a lost worker", lose_worker_1, {10, 10}},
                  {"one shard got less",
                   [](auto& o) {
                     lose_worker_1(o);
                     o.shards[1].workers[1] = account(3);
                   },
                   {10, 9, 0, {}, 1}},
                  {"a double of a lost worker",
                   [](auto& o) {
                     lose_worker_1(o);
                     o.shards[0].workers[1].ledger = {5, 5};
                   },
                   {10, 11},
                   {"shard 0 took 5 gradients of worker 1, which was heard to send 4"}},
                  {"worker 1 was lost after three gradients, of which shard 1 got two, and sent two more",
                   [](auto& o) {
                     o.workers[1] = worker(1, 5);
                     o.lost[1] = true;
                     for (std::uint64_t s : {0, 1}) o.shards[s].workers[1] = account(5 - s);
                     for (shard_report& s : o.shards) s.workers[1].last_step = {2};
                   },
                   {11, 10, 0, {}, 1}},
                  {"of which shard 0 took one twice",
                   [](auto& o) {
                     o.workers[1] = worker(1, 5);
                     o.lost[1] = true;
                     o.shards[0].workers[1] = account(6);
                     o.shards[1].workers[1].last_step = {2};
                   },
                   {11, 12},
                   {"shard 0 took 6 gradients of worker 1, which was heard to send 5"}},
                  {"a lost shard",
                   [](auto& o) {
                     o.how = run_outcome::ending::failed;
                     o.shards[1] = shard_report{};
                   },
                   {10, 0, 0, {}, 10}},
                  {"a lost shard beside a double",
                   [](auto& o) {
                     o.how = run_outcome::ending::failed;
                     o.shards[1] = shard_report{};
                     o.shards[0].workers[0] = account(7);
                   },
                   {10, 11},
                   {"shard 0 took 7 gradients of worker 0, which sent 6"}}});
}

TEST(LedgerAudit, HoldsTheWritersOfHogwildAgainstTheirBlock) {
  expect_audited({{"as many", [](auto& o) { o = hogwild_run(false); }, {10, 10}, {}, 10},
                  {"more",
                   [](auto& o) { o = hogwild_run(false); },
                   {10, 11},
                   {"the shared block counts 11 updates, and its workers made 10"},
                   11},
                  {"fewer",
                   [](auto& o) { o = hogwild_run(false); },
                   {10, 9},
                   {"the shared block counts 9 updates, and its workers made 10"},
                   9},
                  {"those of a lost worker", [](auto& o) { o = hogwild_run(true); }, {9, 9}, {}, 9},
                  {"fewer than those of the one that is left",
                   [](auto& o) { o = hogwild_run(true); },
                   {6, 5},
                   {"the shared block counts 5 updates, and its workers made 6"},
                   5}});
}

/// The copies of a run in progress are of different moments.
TEST(LedgerAudit, CallsNothingLostOrAContradictionWhileTheRunGoesOn) {
  expect_audited({{"8 are under way to shard 0; shard 1 is newer than the worker's own copy, which says 4",
                   [](auto& o) {
                     o.how = run_outcome::ending::running;
                     o.shards[0].workers[0] = account(3);
                     o.shards[1].workers[1] = account(9);
                   },
                   {15, 7}},
                  {"of a lost worker some may be under way",
                   [](auto& o) {
                     o.how = run_outcome::ending::running;
                     o.lost = {true, false};
                     o.shards[1].workers[0] = account(4);
                   },
                   {10, 8}},
                  {"the block is ahead of its workers",
                   [](auto& o) {
                     o = hogwild_run(true);
                     o.how = run_outcome::ending::running;
                     o.lost = {false, false};
                   },
                   {6, 6},
                   {},
                   9}});
}

/// A piece that a worker sent at this moment of its clock, with events of 1 ms each that end 1 ms apart.
trace_piece piece(instant sent, std::optional<instant> answered, std::size_t events) {
  trace_piece x{"cpu:0", sent.count()};
  if (answered) x.answered = answered->count();
  for (std::size_t i = events; i > 0; --i)
    x.events.push_back({trace_kind::compute, instant{2ms * i}.count(), instant{1ms}.count(), 0, i});
  return x;
}

/// The clock of the worker is 30 minutes ahead. Each way takes 1 ms.
TEST(ReportedTimelines, LieOnTheClockOfTheServer) {
  reported_timelines all(1h, 100);
  all.take(timeline_teller::of(rank{1}, {}), piece(90min + 10s, {}, 0), 1h + 10s + 1ms);
  all.take(timeline_teller::of(rank{1}, {}), piece(90min + 11s, 90min + 10s + 2ms, 2), 1h + 11s + 1ms);
  all.complete(timeline_teller::of(rank{1}, {}));
  const std::vector<reported_timeline> placed = all.placed();
  ASSERT_THAT(placed, SizeIs(1));
  EXPECT_EQ(placed[0].track->name(), "worker 1 on cpu:0");
  EXPECT_TRUE(placed[0].whole);
  ASSERT_THAT(placed[0].track->events(), SizeIs(2));
  ASSERT_TRUE(placed[0].clock.uncertainty);
  const instant error = *placed[0].clock.uncertainty;
  EXPECT_LE(error, 1ms + 100us);
  const trace_event& first = placed[0].track->events()[0];
  EXPECT_LE(std::chrono::abs(first.begin - (1h + 11s - 4ms)), error);
  EXPECT_EQ(first.end - first.begin, 1ms) << "spans are exact";
  EXPECT_EQ(first.step, 2U);
  EXPECT_EQ(placed[0].track->events()[1].begin - first.begin, 2ms);
}

TEST(ReportedTimelines, KeepWhatALostWorkerHadToldBesideItsNextIncarnation) {
  reported_timelines all(0s, 100);
  all.take(timeline_teller::of(rank{1}, {}), piece(10s, {}, 0), 10s);
  all.take(timeline_teller::of(rank{1}, {}), piece(11s, 10s, 3), 11s);
  all.take(timeline_teller::of(rank{1}, {1}), piece(20s, {}, 0), 20s);
  all.take(timeline_teller::of(rank{1}, {1}), piece(21s, 20s, 2), 21s);
  all.complete(timeline_teller::of(rank{1}, {1}));
  const std::vector<reported_timeline> placed = all.placed();
  ASSERT_THAT(placed, SizeIs(2));
  EXPECT_FALSE(placed[0].whole);
  EXPECT_THAT(placed[0].track->events(), SizeIs(3));
  EXPECT_TRUE(placed[1].whole);
  EXPECT_EQ(placed[1].track->name(), "worker 1 on cpu:0, incarnation 2");
}

TEST(ReportedTimelines, HaveRoomForOneTimelineOfARankHoweverOftenItComesBack) {
  reported_timelines all(0s, 5);
  all.take(timeline_teller::of(rank{1}, {}), piece(10s, {}, 3), 10s);
  all.take(timeline_teller::of(rank{1}, {1}), piece(20s, {}, 3), 20s);
  all.take(timeline_teller::of(rank{1}, {1}), piece(21s, 20s, 3), 21s);
  all.take(timeline_teller::of(rank{0}, {}), piece(21s, {}, 3), 21s);
  const std::vector<reported_timeline> placed = all.placed();
  ASSERT_THAT(placed, SizeIs(3));
  EXPECT_THAT(placed[0].track->events(), SizeIs(3)) << "another rank has its own";
  EXPECT_THAT(placed[1].track->events(), SizeIs(3));
  EXPECT_THAT(placed[2].track->events(), SizeIs(2));
  EXPECT_EQ(placed[2].track->left_out(), 4U);
}

TEST(ReportedTimelines, IgnoreWhatMakesNoSenseAndEverythingWithoutATrace) {
  reported_timelines all(0s, 5), none(0s, 0);
  trace_piece x = piece(10s, {}, 1);
  none.take(timeline_teller::of(rank{1}, {}), x, 10s);
  EXPECT_THAT(none.placed(), IsEmpty());
  x.events[0].span = -1;
  all.take(timeline_teller::of(rank{1}, {}), x, 10s);
  EXPECT_THAT(all.placed(), IsEmpty());
}

TEST(ReportedTimelines, CountWhatHadNoRoomAndPrintNothingThatATerminalWouldObey) {
  reported_timelines all(0s, 5);
  trace_piece x = piece(10s, {}, 1);
  x.left_out = 17;
  x.device = "cpu\x1b[2J:0\n" + std::string(100, 'x');
  all.take(timeline_teller::of(rank{1}, {}), x, 10s);
  EXPECT_EQ(all.placed().at(0).track->left_out(), 17U);
  EXPECT_EQ(all.placed().at(0).track->name(), "worker 1 on cpu[2J:0" + std::string(54, 'x'));
}

/// Its clock is that of a machine which nobody has answered yet.
TEST(ReportedTimelines, LetNothingEndAfterItsPieceCame) {
  reported_timelines all(5s, 5);
  all.take(timeline_teller::of(rank{1}, {}), piece(3h, {}, 2), 10s);
  const reported_timeline placed = all.placed().at(0);
  EXPECT_FALSE(placed.clock.uncertainty);
  for (const trace_event& e : placed.track->events()) {
    EXPECT_GE(e.begin, 5s);
    EXPECT_LE(e.end, 10s);
  }
}

TEST(ReportedTimelines, ShowWhatAShardHasDoneAndWhy) {
  reported_timelines all(0s, 3);
  const timeline_teller shard = timeline_teller::of(shard_index{1});
  all.take(shard, piece(10s, {}, 0), 10s);
  trace_piece x = piece(11s, 10s, 1);
  x.events[0].what = trace_kind::apply;
  x.events.push_back({trace_kind::discard, instant{1ms}.count(), 0, 4, 9, 0, 0, 2});
  x.words = {"sync", "not awaited\x1b[2J"};
  all.take(shard, x, 11s);
  all.take(timeline_teller::of(rank{1}, {}), piece(10s, {}, 3), 10s);
  all.complete(shard);
  const std::vector<reported_timeline> placed = all.placed();
  ASSERT_THAT(placed, SizeIs(2));
  EXPECT_EQ(placed[0].track->name(), "worker 1 on cpu:0") << "workers come first";
  EXPECT_EQ(placed[1].track->name(), "shard 1");
  EXPECT_EQ(placed[1].teller.shard, shard_index{1});
  EXPECT_TRUE(placed[1].whole);
  ASSERT_THAT(placed[1].track->events(), SizeIs(2));
  const trace_event& dropped = placed[1].track->events()[1];
  EXPECT_EQ(dropped.begin, dropped.end);
  EXPECT_EQ(dropped.peer, 4U);
  EXPECT_EQ(dropped.word, "not awaited[2J") << "nothing that a terminal would obey";
}

TEST(ReportedLosses, CountEachStepOfANoticeByItsMeanIfThereIsOne) {
  reported_losses losses(2), none(2);
  losses.take({0}, 1, 8, 80);
  losses.take({1}, 2, 16, 32);
  losses.take({1}, 1, 8, 40);
  none.take({7}, 1, 8, 80); // there is no such worker
  none.take({1}, 0, 0, 0);
  worker_report known;
  known.worker = {1};
  known.last_losses.add(1000, 8);
  none.give(known, {});
  EXPECT_EQ(known.last_losses.samples(), 8U) << "it has told nothing";
  losses.give(known, {});
  EXPECT_EQ(known.last_losses.samples(), 24U);
  EXPECT_DOUBLE_EQ(known.last_losses.sum(), 72);
  EXPECT_EQ(std::bit_cast<float>(known.loss_bits), 5) << "the last finite loss, as far as it is known";
}

TEST(ReportedLosses, KeepAsManyStepsAsTheReportOfAWorker) {
  reported_losses losses(1);
  losses.take({0}, 10'000, 80'000, 80'000);
  losses.take({0}, 2, 16, 48);
  worker_report known;
  losses.give(known, {});
  EXPECT_EQ(known.last_losses.samples(), 8 * loss_tail::steps);
  EXPECT_DOUBLE_EQ(known.last_losses.sum(), 8 * (static_cast<double>(loss_tail::steps) + 4));
}

TEST(ReportedLosses, AddWhatALostIncarnationWaitedToTheSumsOfEarlierOnes) {
  reported_losses losses(1);
  losses.add({0}, {9, 9, 9, 9});
  losses.begin({0});
  losses.add({0}, {1, 2, 3, 4});
  losses.add({0}, {10, 20, 30, 40});
  losses.add({7}, {1, 1, 1, 1});
  worker_report known;
  known.add({100, 100, 100, 100});
  worker_report copy;
  copy.feeder_wait = 150;
  losses.give(known, copy);
  EXPECT_EQ(known.barrier_wait, 111);
  EXPECT_EQ(known.bound_wait, 122);
  EXPECT_EQ(known.feeder_wait, 150) << "its last copy is newer than its last notice";
  EXPECT_EQ(known.local_bytes, 144U);
}

TEST(LossTail, CountsTheLastStepsByTheirSamples) {
  loss_tail t;
  EXPECT_EQ(t.samples(), 0U);
  EXPECT_EQ(t.sum(), 0);
  t.add(0.5F, 64);
  t.add(2, 16);
  EXPECT_EQ(t.samples(), 80U);
  EXPECT_DOUBLE_EQ(t.sum(), 64);
  for (std::size_t i = 1; i < loss_tail::steps; ++i) t.add(1, 4);
  EXPECT_EQ(t.samples(), 16 + 4 * (loss_tail::steps - 1)) << "the first step is gone";
  EXPECT_DOUBLE_EQ(t.sum(), 32 + 4 * static_cast<double>(loss_tail::steps - 1));
}

} // namespace
} // namespace mailgrad
