#include <mailgrad/actors/remote/channel.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/scheduler/stepping_system.hpp>

#include <mailgrad/tests/actors/remote/blank_message.hpp>
#include <mailgrad/tests/actors/remote/layers_below_a_channel.hpp>
#include <mailgrad/tests/net/joined_sessions.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Each message that there is, in either direction, more of it than anybody reads.

namespace mailgrad::remote {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Counts all that it reads.
class reader final : public caf::event_based_actor {
public:
  reader(caf::actor_config& config, std::shared_ptr<std::uint64_t> count) : caf::event_based_actor(config) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    set_default_handler([count](caf::scheduled_actor*, auto&) -> caf::result<caf::message> {
      ++*count;
      return caf::message{};
    });
#pragma GCC diagnostic pop
  }
  caf::behavior make_behavior() override {
    return {[](const step_ended&) {}};
  }
};

/// Values of no bytes.
class blank_form final : public body_form {
public:
  explicit blank_form(message_kind kind) : kind_(kind) {}
  attached write(const caf::message&, const actor_address&, field_inspector&) override { return {}; }
  arriving begin(field_inspector&, const actor_address&, const actor_address&, const announced&) override {
    return {{}, [kind = kind_] { return blank_message(kind, nullptr); }};
  }

private:
  message_kind kind_;
};

/// A channel above each side of a session, and actors that read when the test says so.
struct MessageBounds : net::joined_sessions<layers_below_a_channel> {
  MessageBounds() {
    above_client.above = workers.get();
    above_server.above = servers.get();
    workers->attach(workers_end, client);
    servers->attach(servers_end, server);
  }
  ~MessageBounds() override {
    for (const auto& way : {workers, servers, third})
      way->ended({net::end_reason::left, "the test has ended"});
    messaging::kill(speaker);
    messaging::kill(hears);
    actors.run();
  }

  /// The messages of `from` get as far as they may.
  void carry_messages() {
    for (int round = 0; round < 8; ++round) {
      network.do_all();
      carry_all();
    }
  }
  /// One side knows the speaker by this duty, and the other side the reader.
  void meet(channel& from, channel& to, duty sender, duty receiver) {
    from.add({sender}, speaker);
    to.add({receiver, sender == receiver ? 1U : 0U}, hears);
    to.add_far(actors.actors(), {sender == duty::nobody ? duty::tracker : sender});
  }
  void post(channel& from, message_kind kind, duty sender, duty receiver, const caf::message& m) {
    const bool between_shards = sender == receiver;
    from.post({receiver, between_shards ? 1U : 0U}, sender == duty::nobody ? caf::actor() : speaker, kind, m);
    carry_messages();
  }

  stepping_system actors;
  waiting_network network;
  std::shared_ptr<channel> workers = std::make_shared<channel>(network, channel_events{});
  std::shared_ptr<channel> servers = std::make_shared<channel>(network, channel_events{});
  std::shared_ptr<channel> third = std::make_shared<channel>(network, channel_events{});
  net::client_end workers_end{{}, above_client, now},
      servers_end{{}, above_server, now}; // only addresses count
  std::shared_ptr<std::uint64_t> read = std::make_shared<std::uint64_t>(0);
  caf::actor hears = actors.actors().spawn<reader>(read);
  caf::actor speaker = actors.actors().spawn<reader>(std::make_shared<std::uint64_t>(0));
};

struct EachMessage : MessageBounds, ::testing::WithParamInterface<std::tuple<message_kind, bool>> {};

TEST_P(EachMessage, IsBoundedWhileNobodyReadsIt) {
  constexpr std::uint64_t flood = 40;
  const auto [kind, goes_up] = GetParam();
  const duty sender = some_duty(kind, may_be_sent_by), receiver = some_duty(kind, may_be_sent_to);
  const message_bound bound = bound_of(kind);
  channel& from = goes_up ? *workers : *servers;
  meet(from, goes_up ? *servers : *workers, sender, receiver);
  if (has_values(kind))
    for (channel* way : {workers.get(), servers.get()})
      way->take_form(kind, std::make_unique<blank_form>(kind));
  join();
  const caf::message m = blank_message(kind, speaker);
  for (std::uint64_t i = 0; i < flood; ++i) post(from, kind, sender, receiver, m);

  const auto& ended = (goes_up ? server : client).outcome();
  if (bound.what != message_bound::of::unread) {
    ASSERT_TRUE(ended);
    EXPECT_THAT(ended->words, HasSubstr(std::string("expected at most ") + std::to_string(bound.most) + " " +
                                        std::string(name_of(kind))));
    actors.run();
    EXPECT_EQ(*read, bound.most);
    return;
  }
  ASSERT_FALSE(ended) << ended->words;
  ASSERT_THAT(from.waits(), SizeIs(1)) << "more come than anybody reads";
  EXPECT_THAT(from.waits()[0].what, HasSubstr(has_values(kind) ? "all 2 bodies" : "all 4 messages"));
  for (std::uint64_t before = flood; before != *read; carry_messages()) {
    before = *read;
    actors.run();
  }
  EXPECT_EQ(*read, flood);
  EXPECT_FALSE((goes_up ? server : client).outcome());
}

INSTANTIATE_TEST_SUITE_P(BothWays, EachMessage,
                         ::testing::Combine(::testing::ValuesIn(all_kinds()), ::testing::Bool()),
                         [](const auto& of) {
                           return std::string(name_of(std::get<0>(of.param))) +
                                  (std::get<1>(of.param) ? "_to_the_server" : "_to_the_client");
                         });

/// Their fields come as the body of a message.
TEST_F(MessageBounds, HoldForLongMessagesToo) {
  const message_kind kind = kind_of(caf::make_message(wait_reason{})).value();
  meet(*workers, *servers, duty::worker, duty::coordinator);
  join();
  const caf::message m = caf::make_message(wait_reason{std::string(100'000, 'x'), 0});
  for (int i = 0; i < 6; ++i) post(*workers, kind, duty::worker, duty::coordinator, m);
  ASSERT_THAT(workers->waits(), SizeIs(1));
  EXPECT_THAT(workers->waits()[0].what, HasSubstr("all 2 bodies"));
  for (int i = 0; i < 6; ++i) {
    actors.run();
    carry_messages();
  }
  EXPECT_EQ(*read, 6U);
}

/// The shards of a resumed run may judge what was kept before the run has begun.
TEST_F(MessageBounds, HoldForActorsThatAreNotThereYetAsWell) {
  const message_kind kind = kind_of(caf::make_message(order_entry{})).value();
  workers->add({duty::shard, 0}, speaker);
  servers->add_far(actors.actors(), {duty::shard, 0});
  join();
  const auto post_some = [&](int count) {
    for (int i = 0; i < count; ++i)
      post(*workers, kind, duty::shard, duty::shard, caf::make_message(order_entry{}));
    actors.run();
    carry_messages();
  };
  post_some(3);
  EXPECT_EQ(*read, 0U);
  EXPECT_THAT(workers->waits(), IsEmpty());
  post_some(20);
  EXPECT_THAT(workers->waits(), SizeIs(1));
  servers->add({duty::shard, 1}, hears);
  for (int i = 0; i < 10; ++i) {
    actors.run();
    carry_messages();
  }
  EXPECT_EQ(*read, 23U);
  EXPECT_THAT(workers->waits(), IsEmpty());
}

/// Notes the steps of the turns that it reads.
class entry_reader {
public:
  static constexpr const char* name = "turn-reader";
  entry_reader(caf::event_based_actor* self, std::shared_ptr<std::vector<std::uint64_t>> steps)
      : self_(self), steps_(std::move(steps)) {}
  caf::behavior make_behavior() {
    return {messaging::on(self_, [this](const order_entry& x) { steps_->push_back(x.step.value); })};
  }

private:
  caf::event_based_actor* self_;
  std::shared_ptr<std::vector<std::uint64_t>> steps_;
};

/// The last message comes when its receiver is there, and before those that waited have been handed out.
TEST_F(MessageBounds, KeepTheOrderOfMessagesForAnActorThatIsStillToCome) {
  const message_kind kind = kind_of(caf::make_message(order_entry{})).value();
  workers->add({duty::shard, 0}, speaker);
  servers->add_far(actors.actors(), {duty::shard, 0});
  join();
  const auto say = [&](std::uint64_t step) {
    workers->post({duty::shard, 1}, speaker, kind,
                  caf::make_message(order_entry{order_entry::kind::gradient, {0}, {step}}));
    network.do_all();
  };
  say(1);
  say(2);
  carry_all();
  say(3);
  const auto steps = std::make_shared<std::vector<std::uint64_t>>();
  const caf::actor late = messaging::spawn<entry_reader>(actors.actors(), steps);
  servers->add({duty::shard, 1}, late);
  carry_all();
  network.do_all();
  actors.run();
  EXPECT_THAT(*steps, ::testing::ElementsAre(1, 2, 3));
  messaging::kill(late);
  actors.run();
}

/// As those between two parameter hosts, by way of the server.
TEST_F(MessageBounds, HoldForMessagesThatAThirdProcessDoesNotTake) {
  net::played_layers nobody;
  net::session apart(terms, nobody, now); // is joined by nobody
  third->attach(servers_end, apart);
  const message_kind kind = kind_of(caf::make_message(order_entry{})).value();
  workers->add({duty::shard, 0}, speaker);
  servers->add_far(actors.actors(), {duty::shard, 0});
  servers->add({duty::shard, 1}, third->add_far(actors.actors(), {duty::shard, 1}));
  join();
  for (int i = 0; i < 20; ++i) {
    post(*workers, kind, duty::shard, duty::shard, caf::make_message(order_entry{}));
    actors.run();
  }
  EXPECT_THAT(workers->waits(), SizeIs(1));
  third->ended({net::end_reason::lost, "it is gone"});
  carry_messages();
  EXPECT_THAT(workers->waits(), IsEmpty());
}

TEST_F(MessageBounds, EndASessionWhosePeerTakesNothing) {
  const message_kind kind = kind_of(caf::make_message(wait_reason{})).value();
  meet(*workers, *servers, duty::worker, duty::coordinator);
  join();
  const caf::message m = caf::make_message(wait_reason{std::string(1 << 19, 'x'), 0});
  for (int i = 0; i < 150 && !client.outcome(); ++i) {
    workers->post({duty::coordinator}, speaker, kind, m);
    network.do_all();
  }
  ASSERT_TRUE(client.outcome());
  EXPECT_EQ(client.outcome()->words, "server takes no messages, and more than 68 MiB wait for it");
}

} // namespace
} // namespace mailgrad::remote
