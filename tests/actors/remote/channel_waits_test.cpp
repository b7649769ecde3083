#include <mailgrad/actors/remote/acceptor.hpp>
#include <mailgrad/actors/remote/channel.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/run/run_crew.hpp>

#include <mailgrad/tests/actors/remote/layers_below_a_channel.hpp>
#include <mailgrad/tests/net/joined_sessions.hpp>

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <memory>

// What a channel says that it waits for. A message without credit has no actor that could name its wait.

namespace mailgrad::remote {
namespace {

using namespace std::chrono_literals;
using net::plane;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

/// Makes a gradient of this step of whatever comes.
class form_of_step final : public body_form {
public:
  explicit form_of_step(std::uint64_t step) : step_(step) {}
  attached write(const caf::message&, const actor_address&, field_inspector&) override { return {}; }
  arriving begin(field_inspector&, const actor_address&, const actor_address&, const announced&) override {
    push_gradient x;
    x.header.id.step = {step_};
    return {{}, [x] { return caf::make_message(x); }};
  }

private:
  std::uint64_t step_;
};

/// A channel above each side of a session: a worker's above the client, and that of its server.
struct ChannelWaits : net::joined_sessions<layers_below_a_channel> {
  ChannelWaits() {
    above_client.above = workers.get();
    above_server.above = servers.get();
    workers->attach(workers_end, client);
    servers->attach(servers_end, server);
    far = workers->add_far(home.system(), {duty::coordinator});
  }
  ~ChannelWaits() override {
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
  std::shared_ptr<channel> workers = std::make_shared<channel>(network, channel_events{});
  std::shared_ptr<channel> servers = std::make_shared<channel>(network, channel_events{});
  net::client_end workers_end{{}, above_client, now},
      servers_end{{}, above_server, now}; // only addresses count
  caf::actor far;
};

TEST_F(ChannelWaits, AreNoneWhileThereIsCredit) {
  EXPECT_THAT(workers->waits(), IsEmpty());
  join();
  for (std::uint32_t i = 0; i < terms.messages; ++i) say();
  EXPECT_THAT(workers->waits(), IsEmpty());
}

TEST_F(ChannelWaits, NameWhoHasNoCreditAndForHowLong) {
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

TEST_F(ChannelWaits, AreToldToTheOtherSideByHeartbeats) {
  join();
  for (std::uint32_t i = 0; i <= terms.messages; ++i) say();
  while (client.next(plane::control, now)) {
  } // these are lost, and with them the answer
  pass(net::timing{}.heartbeat());
  carry(client, server, plane::bulk);
  ASSERT_THAT(servers->waits(), SizeIs(1));
  EXPECT_EQ(servers->waits()[0].what, workers->waits()[0].what);
}

/// Here the worker says of step 7, and has two shards to send gradients to.
/// Takes gradients and answers none.
class silent_shard {
public:
  static constexpr const char* name = "silent-shard";
  explicit silent_shard(caf::event_based_actor*) {}
  caf::behavior make_behavior() {
    return {[](const push_gradient&) {}};
  }
};

struct GradientsAtAdmission : ChannelWaits {
  void SetUp() override {
    join();
    servers->take_form(kind_of<push_gradient>(), std::make_unique<form_of_step>(7));
    worker = servers->add_far(home.system(), {duty::worker, 1});
    servers->add({duty::shard}, shard = messaging::spawn<silent_shard>(home.system()));
    client.set_progress({7, ""});
    pass(net::timing{}.heartbeat());
    carry(client, server, plane::control);
  }
  ~GradientsAtAdmission() override {
    messaging::kill(shard);
    worker = shard = nullptr;
  }
  caf::actor worker, shard;
};

TEST_F(GradientsAtAdmission, AreToldWhileTheyAreNotRead) {
  EXPECT_FALSE(servers->held_gradient(2)) << "it may be read";
  ASSERT_FALSE(server.reads_bulk(false, now));
  pass(100ms);
  ASSERT_TRUE(servers->held_gradient(2));
  EXPECT_EQ(servers->held_gradient(2)->step, 7U);
  EXPECT_EQ(servers->held_gradient(2)->span, net::instant{100ms}.count());
  ASSERT_TRUE(server.reads_bulk(true, now));
  EXPECT_FALSE(servers->held_gradient(2));
}

TEST_F(GradientsAtAdmission, AreToldOfAParameterHostToo) {
  admitted_workers admitted;
  const auto full = std::make_shared<transit>(1 << 20, 1 << 20);
  const auto sum = full->arriving({4}, 30 << 20);
  admitted.open({full, nullptr}, {1, 3});
  admitted.add(5, {net::role::worker, 2}, servers);
  EXPECT_THAT(admitted.waits(), IsEmpty());
  ASSERT_FALSE(server.reads_bulk(false, now));
  pass(100ms);
  ASSERT_THAT(admitted.waits(), SizeIs(1));
  EXPECT_EQ(
      admitted.waits()[0].what,
      "worker 2 waits for room at the parameter host of shards 1, 3 for its gradient of step 7: for the "
      "shards to read gradients of worker 4");
  EXPECT_EQ(admitted.waits()[0].span, net::instant{100ms}.count());
  admitted.remove(5);
  EXPECT_THAT(admitted.waits(), IsEmpty());
}

TEST_F(GradientsAtAdmission, AreToldWhileTheyWaitForTheirTurnInASum) {
  admitted_workers admitted;
  const auto credit = std::make_shared<gradient_credit>(std::vector<std::uint32_t>{1, 3}, 1);
  credit->add(5, {2}, [](std::uint32_t) {});
  credit->add(6, {0}, [](std::uint32_t) {});
  for (const std::uint32_t s : {1U, 3U}) credit->await(s, rank{0}, {});
  admitted.open({nullptr, credit}, {1, 3});
  admitted.add(5, {net::role::worker, 2}, servers);
  EXPECT_THAT(admitted.waits(), IsEmpty()) << "it has not said that it waits";
  client.set_progress({7, "worker 2 waits for credit"});
  pass(net::timing{}.heartbeat());
  carry(client, server, plane::control);
  ASSERT_THAT(admitted.waits(), SizeIs(1));
  EXPECT_EQ(
      admitted.waits()[0].what,
      "worker 2 waits for its turn in the sum of step 7 at the parameter host of shards 1, 3: the gradient "
      "of worker 0 is awaited first");
  credit->await(3, std::nullopt, {});
  ASSERT_THAT(admitted.waits(), SizeIs(1));
  EXPECT_EQ(admitted.waits()[0].what, "worker 2 waits for credit");
  client.set_progress({8, ""});
  carry(client, server, plane::control);
  EXPECT_THAT(admitted.waits(), IsEmpty()) << "its end is told at once";
}

TEST_F(GradientsAtAdmission, GiveTheirCreditBackUnlessItIsKept) {
  using net::frame_kind;
  bool is_kept = true;
  servers->keep_credit(kind_of<push_gradient>(), [&] { return is_kept; });
  ASSERT_TRUE(client.send_body(first_message_with_values(kind_of<push_gradient>()), {}, nullptr));
  carry(client, server, plane::bulk);
  EXPECT_THAT(carry(server, client, plane::control), Not(Contains(frame_kind::credit)));
  servers->allow(1);
  network.do_all();
  EXPECT_THAT(carry(server, client, plane::control), Contains(frame_kind::credit));
}

TEST_F(GradientsAtAdmission, AreNoneOnceAllOfTheStepHaveCome) {
  const net::bytes head = first_message_with_values(kind_of<push_gradient>());
  ASSERT_TRUE(client.send_body(head, {}, nullptr));
  carry(client, server, plane::bulk);
  ASSERT_FALSE(server.reads_bulk(false, now));
  EXPECT_TRUE(servers->held_gradient(2)) << "that of the other shard";
  EXPECT_FALSE(servers->held_gradient(1));
  server.leave("enough", now);
  EXPECT_FALSE(servers->held_gradient(2));
}

TEST_F(ChannelWaits, EndWithCreditAndWithTheSession) {
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

TEST_F(ChannelWaits, NameAParameterHostByItsShards) {
  client.call_server(name_of_host(std::array{0U, 2U}));
  join();
  for (std::uint32_t i = 0; i <= terms.messages; ++i) say();
  ASSERT_THAT(workers->waits(), SizeIs(1));
  EXPECT_THAT(workers->waits()[0].what, HasSubstr("waits for credit of the parameter host of shards 0, 2: "));
}

} // namespace
} // namespace mailgrad::remote
