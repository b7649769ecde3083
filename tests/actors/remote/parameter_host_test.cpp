#include <mailgrad/actors/remote/parameter_host.hpp>

#include <mailgrad/actors/remote/watcher.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <mailgrad/tests/actors/remote/remote_runs.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

namespace mailgrad::remote {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Three shards in two processes: the first and the third in one, so that the order among shards crosses
/// both. A model of 33 weights has room for two.
kind_of_run spread(kind_of_run kind) {
  kind.options.shards = kind.name == "SparseRows" ? 2 : 3;
  return kind;
}

struct RunsWithParameterHosts : ::testing::TestWithParam<kind_of_run> {};

TEST_P(RunsWithParameterHosts, EndWithTheSameWeightsAsInOneProcess) {
  const kind_of_run kind = spread(GetParam());
  const training_report here = train(kind.model, kind.data, kind.options);
  const training_report there = trained_elsewhere(kind, 2);
  ASSERT_EQ(there.ended, "completed") << there.why;
  EXPECT_EQ(there.parameters_sha256, here.parameters_sha256);
  EXPECT_EQ(there.ledger.produced, here.ledger.produced);
  EXPECT_EQ(there.ledger.discarded, here.ledger.discarded);
  EXPECT_TRUE(there.ledger.balances());
}

INSTANTIATE_TEST_SUITE_P(All, RunsWithParameterHosts, ::testing::ValuesIn(kinds()),
                         [](const auto& run) { return run.param.name; });

TEST(ParameterHost, MeasuresTheTimeOnTheWire) {
  const training_report there = trained_elsewhere(spread(with("", "async", 2)), 1);
  ASSERT_EQ(there.ended, "completed") << there.why;
  EXPECT_GT(there.times.wire.count(), 0U);
  EXPECT_GT(there.times.wire.total(), instant{0});
}

TEST(ParameterHost, TellsTheRecorderWhatItJudges) {
  const scratch_folder folder;
  kind_of_run kind = spread(with("", "async", 3));
  kind.options.record = (folder.path() / "recording").string();
  const training_report there = trained_elsewhere(kind, 2);
  ASSERT_EQ(there.ended, "completed") << there.why;
  training_options again = kind.options;
  again.record.clear();
  again.replay = std::make_shared<const recording>(read_recording(kind.options.record));
  const training_report here = train(kind.model, kind.data, again);
  EXPECT_EQ(here.ended, "completed") << here.why;
  EXPECT_EQ(here.parameters_sha256, there.parameters_sha256);
}

TEST(ParameterHost, LetsItsWeightsBeTestedAndKept) {
  const scratch_folder folder;
  kind_of_run kind = spread(with("", "sync", 2));
  const std::string whole = train(kind.model, kind.data, kind.options).parameters_sha256;
  kind.options.evaluate_every = {.steps = 4};
  kind.options.checkpoints.folder = folder.path() / "checkpoints";
  kind.options.checkpoints.every_steps = 6;
  const training_report there = trained_elsewhere(kind, 2);
  ASSERT_EQ(there.ended, "completed") << there.why;
  EXPECT_FALSE(there.curve.empty());
  ASSERT_TRUE(there.checkpoints);
  EXPECT_GT(there.checkpoints->written, 0U);
  EXPECT_EQ(there.parameters_sha256, whole);
}

TEST(ParameterHost, EndsTheRunInOrderIfItIsLost) {
  training_options o = endless("async", 1);
  o.shards = 2;
  open_run run(o, 1, "127.0.0.1:0", 2);
  membership worker(run.address(), {});
  parameter_host stays(run.address(), {});
  {
    parameter_host goes(run.address(), {});
    ASSERT_TRUE(worker.wait_for_begin(std::chrono::seconds{20}));
  }
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "failed");
  EXPECT_THAT(r.why, HasSubstr("shard 1"));
  EXPECT_THAT(r.why, HasSubstr("its process has ended"));
  EXPECT_TRUE(r.ledger.balances()) << to_string(r.ledger);
  for (const net::ending& end : {stays.wait(), worker.wait()}) {
    EXPECT_EQ(end.reason, net::end_reason::run_failed);
    EXPECT_THAT("server says: the run has failed: " + r.why, StartsWith(end.words));
  }
}

/// The host is told its shards when all have joined, and the run begins when it has answered.
TEST(ParameterHost, EndsTheRunIfItsOnlyWorkerHasGoneBeforeItBegins) {
  open_run run(endless("async", 1), 1, "127.0.0.1:0", 1);
  auto worker = std::make_unique<membership>(run.address(), join_options{});
  EXPECT_THAT(watcher(run.address()).ask("status"), HasSubstr("1 of 1 workers and 0 of 1 parameter hosts"));
  parameter_host host(run.address(), {.on_begin = [&](const auto&, const auto&) {
                        worker.reset();
                        run.wait_for_event("worker 0 has left");
                      }});
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "failed");
  EXPECT_THAT(r.why, HasSubstr("it had gone before the run began"));
}

TEST(ParameterHost, IsRefusedWhereNoneIsWanted) {
  open_run run(endless("async", 1), 1);
  EXPECT_THAT([&] { parameter_host(run.address(), {}); },
              ::testing::ThrowsMessage<join_error>(
                  HasSubstr("expected places for parameter hosts, found none in this run")));
  membership one(run.address(), {});
  ASSERT_TRUE(
      one.wait_for_begin(std::chrono::seconds{20})); // a run that has not begun would wait for another
  one.leave();
  run.report();
}

TEST(ParameterHost, LeavesWithWordsIfItCannotListenWhereItShall) {
  for (const std::string everywhere : {"0.0.0.0:0", "[::0]:0"}) {
    open_run run(endless("async", 1), 1, "127.0.0.1:0", 1);
    membership worker(run.address(), {});
    parameter_host host(run.address(), {.listen = everywhere});
    EXPECT_THAT(host.wait().words, HasSubstr("workers cannot connect to " + everywhere));
    EXPECT_THAT([&] { run.report(); }, ::testing::ThrowsMessage<std::runtime_error>(HasSubstr(everywhere)));
  }
}

TEST(ParameterHost, IsNotOneOfMoreThanThereAreShards) {
  serve_options serve;
  serve.shard_hosts = 2;
  EXPECT_THAT([&] { training(small_model(), small_data(), options_for("async", 1), serve); },
              ::testing::ThrowsMessage<std::invalid_argument>(
                  HasSubstr("expected at most as many parameter hosts as shards, 1, found 2")));
}

} // namespace
} // namespace mailgrad::remote
