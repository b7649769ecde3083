#include <mailgrad/actors/remote/client_side.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/actors/remote/remote_runs.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/net/simulated_network.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

namespace mailgrad::remote {
namespace {

using namespace std::chrono_literals;
using mailgrad::testing::only;
using ::testing::HasSubstr, ::testing::IsEmpty, ::testing::SizeIs, ::testing::StartsWith,
    ::testing::ThrowsMessage;

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
  EXPECT_EQ(there.parameters_sha256, here.parameters_sha256);
  EXPECT_EQ(there.ledger.produced, here.ledger.produced);
  EXPECT_EQ(there.ledger.discarded, here.ledger.discarded);
}

INSTANTIATE_TEST_SUITE_P(All, RunsWithParameterHosts, ::testing::ValuesIn(kinds()),
                         [](const auto& run) { return run.param.name; });

TEST(ParameterHost, LetsItsWeightsBeTestedAndKept) {
  const scratch_folder folder;
  kind_of_run kind = spread(with("", "sync", 2));
  const std::string whole = train(kind.model, kind.data, kind.options).parameters_sha256;
  kind.options.evaluate_every = {.steps = 4};
  kind.options.checkpoints.folder = folder.path() / "checkpoints";
  kind.options.checkpoints.every_steps = 6;
  const training_report there = trained_elsewhere(kind, 2);
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
  EXPECT_THAT(
      [&] { parameter_host(run.address(), {}); },
      ThrowsMessage<join_error>(HasSubstr("expected places for parameter hosts, found none in this run")));
  membership one(run.address(), {});
  run.end_with(one);
  serve_options serve;
  serve.shard_hosts = 2;
  EXPECT_THAT([&] { training(small_model(), small_data(), options_for("async", 1), serve); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("expected at most as many parameter hosts as shards, 1, found 2")));
}

TEST(ParameterHost, LeavesWithWordsIfItCannotListenWhereItShall) {
  for (const std::string everywhere : {"0.0.0.0:0", "[::0]:0"}) {
    open_run run(endless("async", 1), 1, "127.0.0.1:0", 1);
    membership worker(run.address(), {});
    parameter_host host(run.address(), {.listen = everywhere});
    EXPECT_THAT(host.wait().words, HasSubstr("workers cannot connect to " + everywhere));
    EXPECT_THAT([&] { run.report(); }, ThrowsMessage<std::runtime_error>(HasSubstr(everywhere)));
  }
}

/// The acceptor of a parameter host with the shards 0 and 2, and worker 1 behind it.
class ShardAcceptor : public mailgrad::testing::DeterministicTest {
protected:
  using shard_probe = mailgrad::testing::listener<worker_left>;

  ShardAcceptor() {
    shard_acceptor_options o;
    o.network = network_;
    o.listen = "127.0.0.1:7000";
    o.run = {7};
    o.slots = 2;
    o.layout = std::make_shared<parameter_layout>(mailgrad::testing::layout_of({{"w", {96}}}, 3));
    o.time = time_;
    o.shards = {{0, first_.actor()}, {2, third_.actor()}};
    o.coordinator = coordinator_.actor();
    acceptor_ = std::make_unique<shard_acceptor>(std::move(o), system());
    worker_ = std::make_unique<client_side>(network_, hello(), channel_events{});
    worker_->connect(acceptor_->address());
    pass();
  }
  ~ShardAcceptor() override {
    worker_.reset();
    acceptor_.reset();
    pass();
  }

  static net::hello hello() {
    net::hello says;
    says.says[std::string(net::feature::run)] = net::key_text(7);
    says.part = net::role::worker;
    says.number = 1;
    says.incarnation = 3;
    return says;
  }
  void pass() {
    network_->run_until(network_->now() + 200ms);
    run();
  }
  /// Of both shards, and of the incarnation that was here.
  void expect_coordinator_told() {
    ASSERT_THAT(coordinator_.heard<worker_left>(), SizeIs(2));
    for (const worker_left& x : coordinator_.heard<worker_left>()) {
      EXPECT_EQ(x.worker, rank{1});
      EXPECT_EQ(x.incarnation, incarnation_number{2});
    }
    EXPECT_THAT(first_.heard<worker_left>(), IsEmpty()) << "the coordinator says when it may go on";
    EXPECT_THAT(third_.heard<worker_left>(), IsEmpty());
  }

  std::shared_ptr<net::simulated_network> network_ = std::make_shared<net::simulated_network>(1);
  shard_probe first_ = listen<worker_left>(), third_ = listen<worker_left>();
  mailgrad::testing::listener<worker_lost, worker_left> coordinator_ = listen<worker_lost, worker_left>();
  std::unique_ptr<shard_acceptor> acceptor_;
  std::unique_ptr<client_side> worker_;
};

TEST_F(ShardAcceptor, TellsTheCoordinatorAloneOfAWorkerThatIsLost) {
  ASSERT_TRUE(worker_->terms());
  worker_->close("its machine is gone");
  pass();
  EXPECT_EQ(only(coordinator_.heard<worker_lost>()).worker, rank{1});
  EXPECT_EQ(coordinator_.heard<worker_lost>()[0].incarnation, incarnation_number{2});
  expect_coordinator_told();
}

/// Its last message to a shard may not have been sent.
TEST_F(ShardAcceptor, TellsTheCoordinatorOfAWorkerThatSaysGoodbye) {
  ASSERT_TRUE(worker_->terms());
  worker_->way()->leave("its worker has ended");
  pass();
  EXPECT_THAT(coordinator_.heard<worker_lost>(), IsEmpty());
  expect_coordinator_told();
}

} // namespace
} // namespace mailgrad::remote
