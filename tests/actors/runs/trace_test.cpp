#include <mailgrad/tests/actors/runs/traced_runs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

// The timelines of whole runs, one message at a time, on a clock that goes on whenever it is read.

namespace mailgrad {
using messaging::kill;

namespace {

using ::testing::Contains;
using testing::drawn_order;
using testing::drawn_orders;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::traced;
using testing::traced_run;
using testing::waits_under;

class TraceOfPolicy : public ::testing::TestWithParam<const char*> {};

TEST_P(TraceOfPolicy, HasEveryGradientOfTheLedgerOnce) {
  for (const drawn_order& order : drawn_orders(10)) {
    const testing::assembly a = traced(GetParam());
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

INSTANTIATE_TEST_SUITE_P(SeveralPolicies, TraceOfPolicy,
                         ::testing::Values("async", "sync", "ssp:1", "backup:1", "rennala:2", "ringmaster:2",
                                           "malenia:4", "ringleader", "async, sync@6, ssp:1@15"),
                         [](const auto& policy) { return testing::test_name(policy.param); });

TEST(Trace, NamesWhatAWorkerWaitsFor) {
  const auto in_async = waits_under("async");
  EXPECT_THAT(in_async, Contains(trace_kind::batch));
  EXPECT_THAT(in_async, Contains(trace_kind::shard_mailbox));
  EXPECT_THAT(in_async, Contains(trace_kind::own_mailbox));
  EXPECT_THAT(in_async, Not(Contains(trace_kind::barrier)));
  EXPECT_THAT(in_async, Not(Contains(trace_kind::bound)));
  EXPECT_THAT(in_async, Not(Contains(trace_kind::policy_switch)));
  EXPECT_THAT(waits_under("sync"), Contains(trace_kind::barrier));
  EXPECT_THAT(waits_under("ssp:0"), Contains(trace_kind::bound));
  EXPECT_THAT(waits_under("async, sync@6"), Contains(trace_kind::policy_switch));
}

/// How long a worker waited before its steps; what it waited after the last, a report leaves out.
std::map<trace_kind, instant> waits_before_steps(const trace_track& t) {
  std::map<trace_kind, instant> before_steps;
  std::map<trace_kind, instant> so_far;
  for (const trace_event& e : t.events()) {
    so_far[e.what] += e.end - e.begin;
    if (e.what == trace_kind::compute) before_steps = so_far;
  }
  return before_steps;
}

TEST(Trace, AddsUpToTheWaitsOfTheReport) {
  for (const char* policy : {"sync", "ssp:0"}) {
    testing::assembly a = traced(policy);
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
  testing::deterministic_system system;
  const testing::assembly a = traced("async");
  const testing::assembled_run run(system.actors(), a, testing::small_data(),
                                   std::make_shared<testing::ticking_time>());
  for (int i = 0; i < 40; ++i) system.step();
  kill(run.devices[1]);
  system.run();
  const run_trace trace = trace_of(run.outcome(), instant{0}, instant{0});
  EXPECT_THAT(trace.lost, ::testing::ElementsAre("worker 1"));
  EXPECT_THAT(trace.tracks, ::testing::SizeIs(a.workers - 1 + a.shards + 1));
}

TEST(Trace, SaysThatTheFeedersTrackIsLost) {
  for (int after : {0, 40, 80}) {
    testing::deterministic_system system;
    const testing::assembly a = traced("async");
    const testing::assembled_run run(system.actors(), a, testing::small_data(),
                                     std::make_shared<testing::ticking_time>());
    for (int i = 0; i < after; ++i) system.step();
    kill(run.feeder_actor);
    system.run();
    ASSERT_EQ(run.times_ended(), 1U) << "nobody waits for its track";
    const run_trace trace = trace_of(run.outcome(), instant{0}, instant{0});
    EXPECT_THAT(trace.lost, ::testing::ElementsAre("feeder"));
  }
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
  for (const trace_event& e : judged.shard(0).events()) {
    if (e.what != trace_kind::apply) continue;
    EXPECT_GT(e.end, e.begin) << "worker " << e.peer << ", step " << e.step;
  }
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
  testing::assembly a = traced("async");
  a.trace_events = 0;
  const traced_run run(a, drawn_order(1));
  EXPECT_THAT(run.trace.tracks, IsEmpty());
  EXPECT_THAT(run.trace.lost, IsEmpty());
}

} // namespace
} // namespace mailgrad
