#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/remote/client_side.hpp>
#include <mailgrad/actors/remote/parameter_host.hpp>
#include <mailgrad/net/simulated_network.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <memory>

// What a parameter host tells of a worker whose connection has ended, one message at a time.

namespace mailgrad::remote {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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
  ASSERT_THAT(coordinator_.heard<worker_lost>(), SizeIs(1));
  EXPECT_EQ(coordinator_.heard<worker_lost>()[0].worker, rank{1});
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
