#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/tests/actors/runs/drawn_runs.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/engine/ticking_time.hpp>

#include <set>

// What whole runs measure of themselves: timelines, how their time splits, and samples of their gradients.

namespace mailgrad::testing {
namespace {

using messaging::kill, messaging::spawn;
using ::testing::Contains, ::testing::ElementsAre, ::testing::IsEmpty, ::testing::Not, ::testing::SizeIs;
using namespace std::chrono_literals;

/// Says of every second checkpoint that it has failed.
checkpoint_written fail_now_and_then(const write_checkpoint& x) {
  return {x.number, x.steps, "a file", x.number % 2 == 0 ? "the disk is full" : "", 1234, 0};
}

/// A run to its end in a drawn order, and its timeline, on a clock that goes on whenever it is read.
/// `disturb` is called before the first message.
class traced_run {
public:
  template <class Disturb>
  traced_run(const assembly& a, drawn_order order, Disturb disturb) : assembly_(a) {
    disturb(run_, system_, order);
    system_.deliver(order);
    if (run_.times_ended() == 0) throw std::logic_error("somebody waits");
    trace = trace_of(run_.outcome(), instant{0}, instant{0});
  }
  traced_run(const assembly& a, drawn_order order) : traced_run(a, order, [](const auto&, auto&, auto&) {}) {}
  ~traced_run() {
    if (assembly_.checkpoint_writer) kill(assembly_.checkpoint_writer);
  }
  const run_outcome& outcome() const { return run_.outcome(); }
  std::map<trace_kind, std::uint64_t> kinds(const trace_track& t) const {
    std::map<trace_kind, std::uint64_t> found;
    for (const trace_event& e : t.events()) ++found[e.what];
    return found;
  }
  const trace_track& worker(std::uint32_t r) const { return *trace.tracks[r]; }
  const trace_track& feeder() const { return *trace.tracks.back(); }
  const trace_track& shard(std::uint32_t s) const { return *trace.tracks[assembly_.workers + s]; }

  run_trace trace;

private:
  const assembly& with_writer() {
    if (assembly_.checkpoint_every > 0)
      assembly_.checkpoint_writer =
          spawn<played_writer>(system_.actors(), played_writer::writing(fail_now_and_then));
    return assembly_;
  }

  assembly assembly_;
  deterministic_system system_;
  assembled_run run_{system_.actors(), with_writer(), small_data(), std::make_shared<ticking_time>()};
};

assembly traced(const std::string& policy, std::uint64_t checkpoint_every = 0) {
  return {.policy = policy, .batches = 30, .trace_events = 10'000, .checkpoint_every = checkpoint_every};
}
constexpr auto traced_policies =
    std::to_array<const char*>({"async", "sync", "ssp:1", "backup:1", "rennala:2", "ringmaster:2",
                                "malenia:4", "ringleader", "async, sync@6, ssp:1@15"});

/// What all workers of some runs did and waited for.
std::set<trace_kind> waits_under(const std::string& policy, std::uint64_t checkpoint_every = 0) {
  std::set<trace_kind> found;
  for (const drawn_order& order : drawn_orders(10)) {
    const assembly a = traced(policy, checkpoint_every);
    const traced_run run(a, order);
    for (std::uint32_t r = 0; r < a.workers; ++r)
      for (const auto& [kind, count] : run.kinds(run.worker(r))) found.insert(kind);
  }
  return found;
}

class TraceOfPolicy : public ::testing::TestWithParam<const char*> {};

TEST_P(TraceOfPolicy, HasEveryGradientOfTheLedgerOnce) {
  for (const drawn_order& order : drawn_orders(10)) {
    const assembly a = traced(GetParam());
    const traced_run run(a, order);
    ASSERT_EQ(run.trace.tracks.size(), a.workers + a.shards + 1);
    EXPECT_EQ(run.kinds(run.feeder())[trace_kind::deal], a.batches);
    for (std::uint32_t r = 0; r < a.workers; ++r)
      EXPECT_EQ(run.kinds(run.worker(r))[trace_kind::compute], run.outcome().workers[r].produced);
    for (std::uint32_t s = 0; s < a.shards; ++s) {
      std::set<std::pair<std::uint32_t, std::uint64_t>> judged;
      std::map<std::uint32_t, staleness_histogram> gaps;
      for (const trace_event& e : run.shard(s).events()) {
        if (e.what != trace_kind::apply && e.what != trace_kind::discard) continue;
        EXPECT_TRUE(judged.emplace(e.peer, e.step).second) << "worker " << e.peer << ", step " << e.step;
        if (e.what == trace_kind::apply) gaps[e.peer].count(e.version - 1 - e.version_read);
      }
      std::uint64_t lost = 0;
      for (std::uint32_t r = 0; r < a.workers; ++r) {
        const worker_account& account = run.outcome().shards[s].workers[r];
        EXPECT_EQ(gaps[r].buckets(), account.gaps.buckets()) << "worker " << r << ", shard " << s;
        lost += account.ledger.lost;
      }
      EXPECT_EQ(judged.size() + lost, a.batches);
    }
  }
}

TEST_P(TraceOfPolicy, HasNoTwoEventsAtOnceOnATrack) {
  for (const drawn_order& order : drawn_orders(10)) {
    const traced_run run(traced(GetParam()), order);
    for (const auto& track : run.trace.tracks) {
      instant last{0};
      for (const trace_event& e : track->events()) {
        if (e.what == trace_kind::discard || e.what == trace_kind::change_policy) continue;
        EXPECT_GE(e.begin, last) << track->name();
        EXPECT_GE(e.end, e.begin);
        last = e.end;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(SeveralPolicies, TraceOfPolicy, ::testing::ValuesIn(traced_policies),
                         name_of_policy);

TEST(Trace, NamesWhatAWorkerWaitsFor) {
  const auto in_async = waits_under("async");
  for (const auto k : {trace_kind::batch, trace_kind::shard_mailbox, trace_kind::own_mailbox})
    EXPECT_THAT(in_async, Contains(k));
  for (const auto k : {trace_kind::barrier, trace_kind::bound, trace_kind::policy_switch})
    EXPECT_THAT(in_async, Not(Contains(k)));
  EXPECT_THAT(waits_under("sync"), Contains(trace_kind::barrier));
  EXPECT_THAT(waits_under("ssp:0"), Contains(trace_kind::bound));
  EXPECT_THAT(waits_under("async, sync@6"), Contains(trace_kind::policy_switch));
}

/// How long a worker waited before its steps; what it waited after the last, a report leaves out.
std::map<trace_kind, instant> waits_before_steps(const trace_track& t) {
  std::map<trace_kind, instant> before_steps, so_far;
  for (const trace_event& e : t.events()) {
    so_far[e.what] += e.end - e.begin;
    if (e.what == trace_kind::compute) before_steps = so_far;
  }
  return before_steps;
}

TEST(Trace, AddsUpToTheWaitsOfTheReport) {
  for (const char* policy : {"sync", "ssp:0"}) {
    assembly a = traced(policy);
    a.shards = 1; // with several, a report has the longest of them
    const traced_run run(a, drawn_order(3));
    for (std::uint32_t r = 0; r < a.workers; ++r) {
      auto waits = waits_before_steps(run.worker(r));
      const worker_report& told = run.outcome().workers[r];
      EXPECT_EQ(waits[trace_kind::barrier].count(), told.barrier_wait) << policy;
      EXPECT_EQ(waits[trace_kind::bound].count(), told.bound_wait) << policy;
      EXPECT_GT(told.barrier_wait + told.bound_wait, 0) << policy;
    }
  }
}

TEST(Trace, SaysWhoseTrackIsLost) {
  const auto traced_without = [](int messages, auto victim) {
    const traced_run run(traced("async"), drawn_order(0), [&](const assembled_run& r, auto& system, auto&) {
      for (int i = 0; i < messages; ++i) system.step();
      kill(victim(r));
    });
    return run.trace;
  };
  const run_trace trace = traced_without(40, [](const assembled_run& r) { return r.devices[1]; });
  EXPECT_THAT(trace.lost, ElementsAre("worker 1"));
  EXPECT_THAT(trace.tracks, SizeIs(5)) << "two workers, two shards, and the feeder";
  for (const int messages : {0, 40, 80})
    EXPECT_THAT(traced_without(messages, [](const assembled_run& r) { return r.feeder_actor; }).lost,
                ElementsAre("feeder"));
}

TEST(Trace, NamesWhatAShardWaitsFor) {
  std::map<trace_kind, std::uint64_t> first, second;
  for (const drawn_order& order : drawn_orders(10)) {
    const traced_run run(traced("sync"), order);
    for (const auto& [kind, count] : run.kinds(run.shard(0))) first[kind] += count;
    for (const auto& [kind, count] : run.kinds(run.shard(1))) second[kind] += count;
  }
  for (auto* shard : {&first, &second}) {
    EXPECT_GT((*shard)[trace_kind::gradient], 0U);
    EXPECT_GT((*shard)[trace_kind::rest_of_batch], 0U);
  }
  EXPECT_EQ(first[trace_kind::word_of_first_shard], 0U);
  const traced_run judged(traced("backup:1"), drawn_order(1));
  EXPECT_GT(judged.kinds(judged.shard(1))[trace_kind::word_of_first_shard], 0U);
  for (const trace_event& e : judged.shard(0).events())
    EXPECT_TRUE(e.what != trace_kind::apply || e.end > e.begin) << "worker " << e.peer << ", step " << e.step;
}

TEST(Trace, NamesWhatTheFeederWaitsFor) {
  const traced_run plain(traced("async"), drawn_order(1));
  EXPECT_EQ(plain.feeder().name(), "feeder");
  EXPECT_GT(plain.kinds(plain.feeder())[trace_kind::asker], 0U);
  EXPECT_EQ(plain.kinds(plain.feeder())[trace_kind::hold], 0U);
  const traced_run switching(traced("async, sync@6, ssp:1@15"), drawn_order(1));
  EXPECT_EQ(switching.kinds(switching.feeder())[trace_kind::hold], 2U);
  std::set<std::uint64_t> dealt;
  for (const trace_event& e : switching.feeder().events())
    if (e.what == trace_kind::deal) dealt.insert(e.step);
  EXPECT_EQ(dealt.size(), 30U);
}

TEST(Trace, IsNotRecordedUnlessAskedFor) {
  assembly a = traced("async", 4);
  a.trace_events = 0;
  const traced_run run(a, drawn_order(1));
  EXPECT_THAT(run.trace.tracks, IsEmpty());
  EXPECT_THAT(run.trace.lost, IsEmpty());
  EXPECT_THAT(run.trace.checkpoints, IsEmpty());
}

// ---- checkpoints on timelines

class CheckpointTrace : public ::testing::TestWithParam<const char*> {};

/// The coordinator does one of both at a time.
TEST_P(CheckpointTrace, ShowsEachCheckpointApartFromSwitches) {
  for (const drawn_order& order : drawn_orders(20)) {
    const assembly a = traced(GetParam(), 4);
    const traced_run run(a, order);
    const checkpoint_account& account = run.outcome().checkpoints;
    const auto& checkpoints = run.outcome().checkpoint_timeline;
    ASSERT_GE(checkpoints.size(), account.written + account.failed);
    ASSERT_GE(checkpoints.size(), 3U);
    instant collected{0}, ended{0};
    for (std::size_t i = 0; i < checkpoints.size(); ++i) {
      const checkpoint_times& c = checkpoints[i];
      EXPECT_EQ(c.number, i + 1);
      EXPECT_GT(c.begun, collected) << "one at a time";
      EXPECT_GT(c.collected, c.begun);
      EXPECT_GT(c.ended, std::max(c.collected, ended)) << "one at a time";
      EXPECT_EQ(c.what, i % 2 == 0 ? checkpoint_times::fate::written : checkpoint_times::fate::failed);
      EXPECT_EQ(c.failure, i % 2 == 0 ? "" : "the disk is full");
      EXPECT_EQ(c.file, "a file");
      EXPECT_EQ(c.bytes, 1234U);
      for (const policy_switch& s : run.trace.switches)
        EXPECT_TRUE(s.ended <= c.begun || c.collected <= s.begun)
            << "checkpoint " << c.number << ": " << s.to;
      collected = c.collected;
      ended = c.ended;
    }
    EXPECT_EQ(checkpoints.back().steps, a.batches) << "of the end";
  }
}

/// One is due whenever a batch is dealt, and only one is written at a time.
TEST_P(CheckpointTrace, HasNoneOfThoseThatWereSkipped) {
  for (const drawn_order& order : drawn_orders(20)) {
    const assembly a = traced(GetParam(), 1);
    const traced_run run(a, order);
    const checkpoint_account& account = run.outcome().checkpoints;
    const auto& begun = run.outcome().checkpoint_timeline;
    EXPECT_GT(account.skipped, 0U);
    const std::uint64_t all = begun.size() + account.skipped;
    EXPECT_GT(all, a.batches / 2) << "each is begun or skipped, but for batches dealt before anybody watches";
    EXPECT_LE(all, a.batches + 2) << "two may be of the end";
    std::set<std::uint64_t> steps;
    for (const checkpoint_times& c : begun)
      if (c.what == checkpoint_times::fate::written) steps.insert(c.steps);
    EXPECT_EQ(account.written, steps.size()) << "two after the same step are one file";
  }
}

/// A worker marks the place between two messages and goes on, so it has no wait to name.
TEST_P(CheckpointTrace, HasTheSameWaitsOfWorkersWithCheckpoints) {
  EXPECT_EQ(waits_under(GetParam()), waits_under(GetParam(), 1));
}

/// Under hogwild they stand still, and the trace says so.
TEST(CheckpointTraceOfHogwild, NamesTheWaitsOfWorkers) {
  for (const char* policy : {"hogwild", "async, hogwild@12"}) {
    EXPECT_FALSE(waits_under(policy).contains(trace_kind::checkpoint)) << policy;
    EXPECT_TRUE(waits_under(policy, 1).contains(trace_kind::checkpoint)) << policy;
    EXPECT_GT(traced_run(traced(policy, 4), drawn_order(1)).outcome().checkpoints.held_seconds, 0) << policy;
  }
  EXPECT_EQ(traced_run(traced("async", 4), drawn_order(1)).outcome().checkpoints.held_seconds, 0);
}

TEST(CheckpointTraceOfHogwild, CountsNoHoldWhenNobodyIsLeftToStandStill) {
  for (const char* policy : {"hogwild", "async, hogwild@12"}) {
    const traced_run run(traced(policy, 1000), drawn_order(1)); // there is that of the end alone
    EXPECT_EQ(run.outcome().checkpoints.written, 1U) << policy;
    EXPECT_EQ(run.outcome().checkpoints.held_seconds, 0) << policy;
  }
}

INSTANTIATE_TEST_SUITE_P(SeveralPolicies, CheckpointTrace, ::testing::ValuesIn(traced_policies),
                         name_of_policy);

/// Its parts cannot all come, so it ends on the timeline when that is known.
TEST(TraceOfCheckpoints, EndOneThatIsGivenUp) {
  int given_up = 0;
  for (const drawn_order& order : drawn_orders(40)) {
    const traced_run run(traced("async", 2), order,
                         [](const assembled_run& r, auto& system, drawn_order& drawn) {
                           system.deliver(drawn, 200 + 5 * drawn.seed(), [] {});
                           kill(r.shards[1]);
                         });
    const std::vector<checkpoint_times>& begun = run.outcome().checkpoint_timeline;
    for (const checkpoint_times& x : begun) {
      EXPECT_GT(x.collected, x.begun);
      if (x.what != checkpoint_times::fate::given_up) continue;
      ++given_up;
      EXPECT_EQ(x.ended, x.collected);
      EXPECT_EQ(&x, &begun.back()) << "none begins any more";
    }
  }
  EXPECT_GT(given_up, 0) << "no order lost the shard while a checkpoint was collected";
}

// ---- how the time of a gradient splits

/// One shard, whose workers the test plays.
class MeasuredShard : public DeterministicTest {
protected:
  explicit MeasuredShard(parameter_layout layout) : layout_(std::move(layout)) {}

  void serve(const std::string& policy, std::uint32_t workers,
             const std::shared_ptr<const time_source>& time) {
    shard_ = start<parameter_actor>(parameter_actor_options{
        {std::make_shared<shard>(layout_, 0, 1, sgd(1)), {policy, workers}, workers, time},
        tracker_.actor()});
    for (std::uint32_t r = 0; r < workers; ++r) {
      devices_.push_back(listen<shard_weights>());
      tell(shard_, join_shard{{r}, {}, devices_[r].actor()});
    }
  }
  worker_account account_of(std::uint32_t worker) {
    return ask<shard_report>(shard_, report_shard{}).heard<shard_report>().at(0).workers[worker];
  }

  const parameter_layout layout_;
  listener<staleness_observed> tracker_ = listen<staleness_observed>();
  std::vector<listener<shard_weights>> devices_;
  caf::actor shard_;
};

class TimeSplitOfAShard : public MeasuredShard {
protected:
  TimeSplitOfAShard() : MeasuredShard(layout_of({{"w", {16}}}, 1)) {}

  void push(std::uint32_t worker, std::uint64_t step, const gradient_times& times,
            std::optional<instant> sent = {}) {
    push_gradient x = push_of(worker, step, 0, constant_gradient(layout_, 1));
    x.header.times = times;
    x.payload.sent = sent;
    tell(shard_, std::move(x));
  }
  time_split times_of(std::uint32_t worker) { return account_of(worker).times; }
};

TEST_F(TimeSplitOfAShard, MeasuresHowLongAGradientLayInTheMailbox) {
  serve("async", 1, time_);
  push(0, 1, {2ms, 30ms}, time_->now() - 3ms);
  push(0, 2, {4ms, 50ms}, time_->now() - 1ms);
  const time_split t = times_of(0);
  EXPECT_EQ(t.read.total(), 6ms);
  EXPECT_EQ(t.compute.total(), 80ms);
  EXPECT_EQ(t.compute.longest(), 50ms);
  EXPECT_EQ(t.mailbox.total(), 4ms);
  EXPECT_EQ(t.mailbox.longest(), 3ms);
  EXPECT_EQ(t.apply.count(), 2U);
}

TEST_F(TimeSplitOfAShard, LeavesEmptyWhatNobodyMeasured) {
  serve("async", 1, time_);
  push(0, 1, {});
  const time_split t = times_of(0);
  EXPECT_TRUE(t.read.empty());
  EXPECT_TRUE(t.compute.empty());
  EXPECT_TRUE(t.mailbox.empty());
  EXPECT_TRUE(t.wire.empty());
  EXPECT_EQ(t.apply.count(), 1U);
}

TEST_F(TimeSplitOfAShard, GivesEachGradientOfABatchAnEqualShareOfItsUpdate) {
  serve("sync", 2, std::make_shared<ticking_time>());
  push(0, 1, {});
  EXPECT_TRUE(times_of(0).apply.empty()) << "it lies in a batch";
  push(1, 1, {});
  EXPECT_EQ(times_of(0).apply.total(), 500ns);
  EXPECT_EQ(times_of(1).apply.total(), 500ns);
}

class TimeSplitOfARun : public ::testing::TestWithParam<const char*> {};

TEST_P(TimeSplitOfARun, HasEachPartOfEachGradientOnce) {
  const assembly a{.policy = GetParam()};
  const traced_run run(a, drawn_order(0));
  const training_report r = report_of(run.outcome());
  ASSERT_EQ(r.exchanges.size(), a.workers * a.shards);
  for (const exchange_figures& x : r.exchanges) {
    const gradient_ledger& taken = run.outcome().shards[x.shard.value()].workers[x.worker].ledger;
    EXPECT_EQ(x.times.read.count(), taken.produced);
    EXPECT_EQ(x.times.compute.count(), taken.produced);
    EXPECT_EQ(x.times.mailbox.count(), taken.produced);
    EXPECT_EQ(x.times.apply.count(), taken.applied + taken.merged);
    EXPECT_EQ(x.times.apply.count(), x.gaps.total());
    EXPECT_TRUE(x.times.wire.empty());
    EXPECT_GE(x.times.mailbox.longest(), 1us);
  }
  EXPECT_EQ(r.times.compute.count(), r.steps) << "once, though two shards heard of it";
  EXPECT_EQ(r.times.mailbox.count(), a.shards * r.steps);
}

INSTANTIATE_TEST_SUITE_P(SeveralPolicies, TimeSplitOfARun, ::testing::Values("async", "sync", "backup:1"),
                         name_of_policy);

// ---- sampled gradients: how far the weights moved, and where a fresh gradient points

training_report report_of_run(const assembly& a, drawn_order order) {
  return report_of(traced_run(a, order).outcome());
}

assembly sampling(const std::string& policy, std::uint32_t workers, std::uint64_t sample_gap) {
  return {.policy = policy, .workers = workers, .batches = 40, .sample_gap = sample_gap};
}

TEST(Sampling, FindsNoGapAndTheSameGradientWhereOneWorkerIsAlone) {
  for (const char* policy : {"async", "sync"}) {
    const training_report r = report_of_run(sampling(policy, 1, 5), drawn_order(1));
    EXPECT_EQ(r.weight_gap.count(), 2 * 8U) << "on each of two shards";
    EXPECT_EQ(r.weight_gap.greatest(), 0.0);
    EXPECT_EQ(r.gradient_cosine.count(), 8U);
    EXPECT_EQ(r.gradient_cosine.least(), 1.0);
    EXPECT_EQ(r.gradient_cosine.greatest(), 1.0);
  }
}

TEST(Sampling, TakesEachNthGradientOfEachWorker) {
  for (const drawn_order& order : drawn_orders(10)) {
    const traced_run run(sampling("async", 3, 4), order);
    std::uint64_t expected = 0;
    for (const worker_report& w : run.outcome().workers) expected += w.produced / 4;
    EXPECT_EQ(report_of(run.outcome()).gradient_cosine.count(), expected);
    EXPECT_EQ(report_of(run.outcome()).weight_gap.count(), 2 * expected);
  }
}

/// Each shard knows lag and gap, and the worker the cosine.
TEST(Sampling, KeepsLagGapAndCosineOfAGradientTogether) {
  const training_report r = report_of_run(sampling("async", 3, 1), drawn_order(2));
  EXPECT_GT(r.weight_gap.greatest(), 0.0) << "others were faster";
  EXPECT_LT(r.gradient_cosine.least(), 1.0);
  EXPECT_GE(r.gradient_cosine.least(), -1.0);
  EXPECT_GT(r.gradient_cosine.mean(), 0.5) << "a few steps do not turn a gradient round";
  ASSERT_EQ(r.sampled.size(), r.weight_gap.count());
  double gaps = 0, cosines = 0;
  for (const sampled_figures& x : r.sampled) {
    ASSERT_TRUE(x.cosine) << "worker " << x.worker << ", step " << x.step;
    EXPECT_EQ(x.gap == 0, x.lag == 0);
    gaps += x.gap;
    cosines += *x.cosine;
  }
  EXPECT_NEAR(gaps / static_cast<double>(r.sampled.size()), r.weight_gap.mean(), 1e-12);
  EXPECT_NEAR(cosines / static_cast<double>(r.sampled.size()), r.gradient_cosine.mean(), 1e-12)
      << "each counts on two shards";
  for (std::size_t i = 0; i < r.sampled.size(); i += 2) {
    EXPECT_EQ(r.sampled[i].shard, 0U);
    EXPECT_EQ(r.sampled[i + 1].shard, 1U);
    EXPECT_EQ(r.sampled[i].step, r.sampled[i + 1].step);
  }
}

TEST(Sampling, KeepsOnlySomeOfVeryManyGradients) {
  assembly a = sampling("async", 3, 1);
  a.batches = 2'000;
  const training_report r = report_of_run(a, drawn_order(2));
  EXPECT_EQ(r.gradient_cosine.count(), 2'000U);
  EXPECT_EQ(r.sampled.size(), training_report::most_sampled);
  std::uint64_t last = 0;
  for (const sampled_figures& x : r.sampled) {
    EXPECT_TRUE(x.cosine) << "shards and workers keep the same gradients";
    if (x.worker == 0) last = x.step;
  }
  EXPECT_GT(last, 500U) << "they are from all of the run";
}

TEST(Sampling, FindsNoGapBehindABarrier) {
  const training_report r = report_of_run(sampling("sync", 3, 2), drawn_order(2));
  EXPECT_GT(r.weight_gap.count(), 0U);
  EXPECT_EQ(r.weight_gap.greatest(), 0.0);
  EXPECT_EQ(r.gradient_cosine.least(), 1.0);
}

TEST(Sampling, EndsInEveryPolicyWithALedgerThatBalances) {
  for (const char* policy : {"ssp:1", "backup:1", "k-async:2", "k-batch-async:2", "rennala:2", "ringmaster:2",
                             "malenia:4", "ringleader", "async, sync@8, ssp:1@20"})
    for (const drawn_order& order : drawn_orders(10)) {
      const training_report r = report_of_run(sampling(policy, 3, 2), order);
      EXPECT_EQ(r.ended, "completed") << policy;
      EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
      EXPECT_GT(r.weight_gap.count(), 0U) << policy;
      EXPECT_GT(r.gradient_cosine.count(), 0U) << policy;
    }
}

/// It has 8 weights, with a gap between two variables.
class SamplingShard : public MeasuredShard {
protected:
  SamplingShard() : MeasuredShard(layout_of({{"w", {5}}, {"b", {3}}}, 1)) { serve("async", 1, time_); }
  /// 3 for each weight, and 0 between the variables as in the gradients of a replica.
  void push(std::uint64_t step, std::uint64_t version, snapshot read) {
    std::vector<float> values(layout_.dense_size());
    for (const placed_variable& v : layout_.variables())
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(v.offset), v.dims.size(), 3.0F);
    push_gradient x = push_of(0, step, version, dense_gradient(values));
    x.payload.read = std::move(read);
    tell(shard_, std::move(x));
  }
  std::vector<shard_weights>& answers() { return devices_[0].heard<shard_weights>(); }
};

TEST_F(SamplingShard, MeasuresTheRootMeanSquareOverWeightsAndNotOverGaps) {
  const auto first = answers()[0].payload.values;
  push(1, 0, {});
  push(2, 1, {});
  push(3, 0, first);
  const running_stat gap = account_of(0).weight_gap;
  EXPECT_EQ(gap.count(), 1U);
  EXPECT_NEAR(gap.mean(), 6, 1e-5) << "two steps of 3 for each weight";
}

TEST_F(SamplingShard, TellsTheWeightsThatASampledGradientMet) {
  push(1, 0, {});
  EXPECT_FALSE(answers().back().payload.met);
  const auto before = answers().back().payload.values;
  push(2, 0, answers()[0].payload.values);
  EXPECT_EQ(answers().back().header.met.value, 2U);
  EXPECT_EQ(answers().back().payload.met, before);
  push(3, 2, {});
  EXPECT_FALSE(answers().back().payload.met) << "it is told once";
}

} // namespace
} // namespace mailgrad::testing
