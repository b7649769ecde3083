#include <mailgrad/tests/actors/remote/remote_runs.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <stdexcept>

// The timeline of a run whose workers are in systems of their own, with clocks of their own.

namespace mailgrad::remote {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains, ::testing::HasSubstr, ::testing::IsEmpty, ::testing::SizeIs;

/// The clock of another machine. It tells when it has been read so often, which a worker does in each step.
class other_clock final : public time_source {
public:
  explicit other_clock(instant ahead, std::uint64_t reads = 0) : ahead_(ahead), left_(reads) {}

  instant now() const noexcept override {
    if (left_.load() > 0 && --left_ == 0) read_.set_value();
    return machine_.now() + ahead_;
  }
  void wait_until_read() { read_.get_future().get(); }

private:
  machine_time machine_;
  instant ahead_;
  mutable std::atomic<std::uint64_t> left_; ///< the worker's actor alone counts down, as a rule
  mutable std::promise<void> read_;
};

training_options traced(training_options o) {
  o.trace_events = 200'000;
  return o;
}

const trace_track& track_of(const run_trace& trace, const std::string& name) {
  for (const auto& t : trace.tracks)
    if (t->name() == name) return *t;
  throw std::out_of_range("no track " + name);
}

/// By step, of one worker: when its gradient was computed, and when the shard applied it.
using moments = std::map<std::uint64_t, instant>;
moments ends_of(const trace_track& track) {
  moments found;
  for (const trace_event& e : track.events())
    if (e.what == trace_kind::compute) found[e.step] = e.end;
  return found;
}
moments applied_of(const trace_track& shard, std::uint32_t worker) {
  moments found;
  for (const trace_event& e : shard.events())
    if (e.what == trace_kind::apply && e.peer == worker) found[e.step] = e.end;
  return found;
}

/// A gradient is not applied before it was computed, as far as anybody can tell from the file.
void expect_causes_first(const run_trace& trace, std::size_t of, std::uint32_t worker) {
  const placed_track& placed = trace.clocks.at(of);
  ASSERT_TRUE(placed.clock.uncertainty);
  const moments computed = ends_of(track_of(trace, placed.name));
  EXPECT_THAT(computed, ::testing::Not(IsEmpty()));
  for (const auto& [step, when] : applied_of(track_of(trace, "shard 0"), worker))
    if (computed.contains(step)) {
      EXPECT_GE(when + *placed.clock.uncertainty, computed.at(step)) << "step " << step;
    }
}

TEST(ToldTrace, ShowsEachStepOfAWorkerOnTheClockOfTheServer) {
  open_run run(traced(mailgrad::testing::options_for("sync", 2)), 2);
  membership ahead(run.address(), {.number = 0, .time = std::make_shared<other_clock>(1h)});
  membership here(run.address(), {.number = 1});
  EXPECT_EQ(ahead.wait().reason, net::end_reason::left);
  EXPECT_EQ(here.wait().reason, net::end_reason::left);
  const training_report r = run.report();
  const run_trace& trace = run.trace();
  EXPECT_THAT(missing_in(trace), IsEmpty());
  ASSERT_THAT(trace.clocks, SizeIs(2));
  EXPECT_EQ(ends_of(track_of(trace, "worker 0 on cpu:0")).size() +
                ends_of(track_of(trace, "worker 1 on cpu:0")).size(),
            r.steps);
  EXPECT_EQ(trace.clocks[1].clock.value, 0s) << "the clock of this machine";
  const clock_offset& of = trace.clocks[0].clock;
  ASSERT_TRUE(of.uncertainty);
  EXPECT_LE(std::chrono::abs(of.value + 1h), *of.uncertainty);
  expect_causes_first(trace, 0, 0);
  expect_causes_first(trace, 1, 1);
  const auto& events = track_of(trace, "worker 0 on cpu:0").events();
  EXPECT_TRUE(std::ranges::any_of(events, [](const auto& e) { return e.what == trace_kind::wire; }));
  for (std::size_t i = 1; i < events.size(); ++i) ASSERT_GE(events[i].begin, events[i - 1].end);
}

TEST(ToldTrace, KeepsWhatAWorkerToldBeforeItWasLost) {
  open_run run(traced(endless("async", 2)), 2);
  membership stays(run.address(), {.number = 0});
  const auto clock = std::make_shared<other_clock>(5min, 5000);
  {
    membership dies(run.address(), {.number = 1, .time = clock});
    clock->wait_until_read();
    dies.cut();
    run.wait_for_event("lost worker");
  }
  const auto here = std::make_shared<other_clock>(0s, 500); // which it does not read so often without a slot
  membership comes(run.address(), {.number = 1, .time = here});
  here->wait_until_read();
  run.stop({&stays, &comes});
  const run_trace& trace = run.trace();
  ASSERT_THAT(trace.clocks, SizeIs(3));
  EXPECT_EQ(trace.clocks[1].name, "worker 1 on cpu:0");
  EXPECT_TRUE(trace.clocks[1].lost_after);
  EXPECT_EQ(trace.clocks[2].name, "worker 1 on cpu:0, incarnation 2");
  EXPECT_FALSE(trace.clocks[2].lost_after);
  expect_causes_first(trace, 1, 1);
  EXPECT_THAT(missing_in(trace), Contains(HasSubstr("worker 1 on cpu:0: lost, with what it did after ")));
}

TEST(ToldTrace, IsNotToldUnlessSomebodyAsked) {
  open_run run(mailgrad::testing::options_for("sync", 1), 1);
  membership here(run.address(), {});
  EXPECT_EQ(here.wait().reason, net::end_reason::left);
  run.report();
  EXPECT_THAT(run.trace().tracks, IsEmpty());
  EXPECT_THAT(missing_in(run.trace()), IsEmpty());
}

TEST(ToldTrace, ShowsWhatShardsElsewhereHaveDone) {
  training_options options = traced(mailgrad::testing::options_for("sync, async@20", 1));
  options.shards = 3;
  open_run run(std::move(options), 1, "127.0.0.1:0", 2);
  parameter_host ahead(run.address(), {.time = std::make_shared<other_clock>(1h)});
  parameter_host holds(run.address(), parameter_host_options{});
  membership here(run.address(), {});
  EXPECT_EQ(here.wait().reason, net::end_reason::left);
  const training_report r = run.report();
  const run_trace& trace = run.trace();
  EXPECT_THAT(missing_in(trace), IsEmpty());
  ASSERT_THAT(trace.clocks, SizeIs(4));
  const moments computed = ends_of(track_of(trace, "worker 0 on cpu:0"));
  for (std::size_t s = 0; s < 3; ++s) {
    const std::string name = "shard " + std::to_string(s);
    EXPECT_EQ(trace.clocks[1 + s].name, name);
    ASSERT_TRUE(trace.clocks[1 + s].clock.uncertainty);
    const trace_track& track = track_of(trace, name);
    const moments applied = applied_of(track, 0);
    EXPECT_EQ(applied.size(), r.ledger.produced);
    for (const auto& [step, when] : applied)
      EXPECT_GE(when + *trace.clocks[1 + s].clock.uncertainty + *trace.clocks[0].clock.uncertainty,
                computed.at(step));
    const auto switched = std::ranges::find(track.events(), trace_kind::change_policy, &trace_event::what);
    ASSERT_NE(switched, track.events().end());
    EXPECT_EQ(switched->word, "async");
  }
}

} // namespace
} // namespace mailgrad::remote
