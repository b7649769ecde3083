#include <mailgrad/actors/remote/link.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/run/run_home.hpp>

#include <mailgrad/tests/actors/remote/layers_below_a_link.hpp>
#include <mailgrad/tests/net/joined_sessions.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <memory>

// What a link says that it waits for. A letter without credit has no actor that could name its wait.

namespace mailgrad::remote {
namespace {

using namespace std::chrono_literals;
using net::plane;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A link above each side of a session: a worker's above the client, and that of its server.
struct LinkWaits : net::joined_sessions<layers_below_a_link> {
  LinkWaits() {
    above_client.above = workers.get();
    above_server.above = servers.get();
    workers->attach(workers_end, client);
    servers->attach(servers_end, server);
    far = workers->add_far(home.system(), {duty::coordinator});
  }
  ~LinkWaits() override {
    for (const auto& way : {workers, servers}) way->ended({net::end_reason::left, "the test has ended"});
    far = nullptr;
    home.wait();
  }

  /// The worker says something to the coordinator that takes the credit of a message.
  void say() {
    const caf::message m = caf::make_message(worker_paused{});
    workers->post({duty::coordinator}, {}, kind_of(m).value(), m);
    network.do_all();
  }
  void pass(net::instant span) {
    now += span;
    network.moment += span;
    client.tick(now);
    server.tick(now);
  }

  run_home home{{{device_kind::cpu, 0}}};
  waiting_network network;
  std::shared_ptr<link> workers = std::make_shared<link>(network, link_events{});
  std::shared_ptr<link> servers = std::make_shared<link>(network, link_events{});
  net::client_end workers_end{{}, above_client, now},
      servers_end{{}, above_server, now}; // only addresses count
  caf::actor far;
};

TEST_F(LinkWaits, AreNoneWhileThereIsCredit) {
  EXPECT_THAT(workers->waits(), IsEmpty());
  join();
  for (std::uint32_t i = 0; i < terms.messages; ++i) say();
  EXPECT_THAT(workers->waits(), IsEmpty());
}

TEST_F(LinkWaits, NameWhoHasNoCreditAndForHowLong) {
  join();
  for (std::uint32_t i = 0; i <= terms.messages; ++i) say();
  pass(100ms);
  ASSERT_THAT(workers->waits(), SizeIs(1));
  EXPECT_EQ(workers->waits()[0].what,
            "worker 2 (incarnation 3) waits for credit of server: all 4 messages that it may "
            "have sent are under way");
  EXPECT_EQ(workers->waits()[0].span, net::instant{100ms}.count());
  say(); // and waits on, not anew
  EXPECT_EQ(workers->waits()[0].span, net::instant{100ms}.count());
}

TEST_F(LinkWaits, AreToldToTheOtherSideByHeartbeats) {
  join();
  for (std::uint32_t i = 0; i <= terms.messages; ++i) say();
  while (client.next(plane::control, now)) {
  } // these are lost, and with them the answer
  pass(net::timing{}.heartbeat());
  carry(client, server, plane::bulk);
  ASSERT_THAT(servers->waits(), SizeIs(1));
  EXPECT_EQ(servers->waits()[0].what, workers->waits()[0].what);
}

TEST_F(LinkWaits, EndWithCreditAndWithTheSession) {
  join();
  for (std::uint32_t i = 0; i <= terms.messages; ++i) say();
  ASSERT_THAT(workers->waits(), SizeIs(1));
  server.allow(terms.messages, 0);
  carry_all();
  EXPECT_THAT(workers->waits(), IsEmpty());
  for (std::uint32_t i = 0; i <= terms.messages; ++i) say();
  client.leave("enough", now);
  EXPECT_THAT(workers->waits(), IsEmpty());
}

} // namespace
} // namespace mailgrad::remote
