#include <mailgrad/actors/remote/channel.hpp>
#include <mailgrad/net/ending.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/actors/remote/blank_message.hpp>
#include <mailgrad/tests/actors/remote/layers_below_a_channel.hpp>
#include <mailgrad/tests/net/joined_sessions.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <gmock/gmock.h>

#include <array>
#include <tuple>

namespace mailgrad::remote {
namespace {

using mailgrad::testing::only;
using ::testing::HasSubstr, ::testing::IsEmpty, ::testing::SizeIs, ::testing::ThrowsMessage;

const envelope example{.order = 5,
                       .to = {duty::shard, 2},
                       .from = {duty::worker, 258},
                       .kind = 30,
                       .layout = message_layout::fields_and_values};

net::bytes written(const envelope& head) {
  net::bytes made;
  net::frame_writer w(made);
  write_envelope(w, head);
  return made;
}

envelope read(const net::bytes& from, bool has_body) {
  net::frame_reader r("message", from);
  const envelope head = read_envelope(r, has_body);
  r.end();
  return head;
}

void expect_refused(const net::bytes& said, bool has_body, const std::string& words) {
  EXPECT_THAT([&] { read(said, has_body); }, ThrowsMessage<net::protocol_error>(HasSubstr(words)));
}

TEST(Envelope, StandsAsItsPageShowsIt) {
  constexpr std::array<std::uint8_t, envelope_bytes> bytes{5, 0, 0, 0, 0, 0, 0, 0,  5, 2, 0,
                                                           0, 0, 6, 2, 1, 0, 0, 30, 0, 1};
  const net::bytes made = written(example);
  ASSERT_EQ(made.size(), bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(static_cast<std::uint8_t>(made[i]), bytes[i]) << i;
  EXPECT_EQ(read(made, true), example);
}

TEST(Envelope, SaysHowTheMessageHasToCome) {
  for (const message_layout layout :
       {message_layout::fields, message_layout::fields_and_values, message_layout::fields_in_body}) {
    envelope head = example;
    head.layout = layout;
    const bool needs_body = layout != message_layout::fields;
    EXPECT_EQ(read(written(head), needs_body), head);
    expect_refused(written(head), !needs_body, "expected fields that fit how the message came");
  }
}

TEST(Envelope, IsRefusedIfItNamesNobodyAndNothing) {
  net::bytes made = written(example);
  made.back() = std::byte{3};
  expect_refused(made, true, "expected fields that fit how the message came");
  made = written(example);
  made[8] = std::byte{9};
  expect_refused(made, true, "expected a duty from 0 to 8, found 9");
  made = written(example);
  made.pop_back();
  expect_refused(made, true, "message");
}

struct PeerChecks : ::testing::Test {
  void expect_refused(message_kind asked, actor_address from, actor_address to, const std::string& words) {
    EXPECT_THAT([&] { rules.take(asked, from, to); }, ThrowsMessage<net::protocol_error>(HasSubstr(words)));
  }
  void expect_no_end(message_kind kind, actor_address to, const std::string& words) {
    EXPECT_THAT([&] { rules.require_ends(kind, worker, to); },
                ThrowsMessage<net::protocol_error>(HasSubstr(words)));
  }

  static constexpr actor_address worker{duty::worker, 1}, coordinator{duty::coordinator},
      nobody{duty::nobody}, host{duty::host}, first{duty::shard, 0}, second{duty::shard, 1};
  peer_checks rules;
};

TEST_F(PeerChecks, LetNoGradientComeBeforeTheAnswersToTheLastOnes) {
  const message_kind push = kind_of<push_gradient>(), weights = kind_of<shard_weights>();
  for (int i = 0; i < 100; ++i) {
    rules.take(push, worker, first);
    rules.take(push, worker, second);
    rules.answer(weights, first, worker);
    rules.answer(weights, second, worker);
  }
  for (int i = 0; i < 2; ++i) rules.take(push, worker, first);
  rules.answer(weights, second, worker);
  expect_refused(push, worker, first,
                 "expected at most 2 push_gradient that shard 0 has not answered, found one more");
}

TEST_F(PeerChecks, LetOnePieceOfATimelineComeAtATime) {
  for (int i = 0; i < 100; ++i) {
    rules.take(kind_of<trace_reported>(), worker, coordinator);
    rules.answer(kind_of<trace_taken>(), coordinator, worker);
  }
  rules.take(kind_of<trace_reported>(), worker, coordinator);
  expect_refused(kind_of<trace_reported>(), worker, coordinator,
                 "expected at most 1 trace_reported that the coordinator has not answered, found one more");
}

/// A watcher and the handler that answers it are the hosts of their processes.
TEST_F(PeerChecks, LetAWatcherAskForEverAndNotWithoutEnd) {
  const message_kind asked = kind_of<run_asked>(), answered = kind_of<run_answered>();
  for (int i = 0; i < 100; ++i) {
    rules.take(asked, nobody, host);
    rules.answer(answered, nobody, host);
  }
  for (int i = 0; i < 16; ++i) rules.take(asked, nobody, host);
  rules.answer(answered, nobody, host);
  rules.take(asked, nobody, host);
  expect_refused(asked, nobody, host, "expected at most 16 run_asked that");
}

TEST_F(PeerChecks, LetEachShardOfAProcessTellAPieceOfItsTimeline) {
  const message_kind told = kind_of<shard_trace_reported>();
  rules.take(told, first, coordinator);
  rules.take(told, second, coordinator);
  rules.answer(kind_of<trace_taken>(), coordinator, first);
  rules.take(told, first, coordinator);
  expect_refused(told, second, coordinator, "expected at most 1 shard_trace_reported that");
}

TEST_F(PeerChecks, SendNoActorWhatItDoesNotTake) {
  rules.add(worker);
  EXPECT_NO_THROW(rules.require_ends(kind_of<join_shard>(), worker, first));
  expect_no_end(kind_of<join_shard>(), {duty::tracker},
                "expected no join_shard for the staleness tracker, found one");
  expect_no_end(999, coordinator, "expected no message of kind 999 from worker 1, found one");
}

TEST_F(PeerChecks, CountOnlyWhatIsBounded) {
  for (int i = 0; i < 100; ++i) EXPECT_NO_THROW(rules.take(kind_of<worker_progress>(), worker, coordinator));
  for (std::uint32_t s = 0; s < 3; ++s) rules.take(kind_of<join_shard>(), worker, {duty::shard, s});
  expect_refused(kind_of<join_shard>(), worker, {duty::shard, 2},
                 "expected at most 1 join_shard from worker 1, found one more");
}

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
  /// The first shard is on the side of the workers, and an entry goes to the second.
  void meet_as_shards() {
    workers->add({duty::shard, 0}, speaker);
    servers->add_far(actors.actors(), {duty::shard, 0});
  }
  void post_entry() {
    post(*workers, kind_of<order_entry>(), duty::shard, duty::shard, caf::make_message(order_entry{}));
  }
  void read_all(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      actors.run();
      carry_messages();
    }
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
  const message_kind kind = kind_of<wait_reason>();
  meet(*workers, *servers, duty::worker, duty::coordinator);
  join();
  const caf::message m = caf::make_message(wait_reason{std::string(100'000, 'x'), 0});
  for (int i = 0; i < 6; ++i) post(*workers, kind, duty::worker, duty::coordinator, m);
  EXPECT_THAT(only(workers->waits()).what, HasSubstr("all 2 bodies"));
  read_all(6);
  EXPECT_EQ(*read, 6U);
}

/// The shards of a resumed run may judge what was kept before the run has begun.
TEST_F(MessageBounds, HoldForActorsThatAreNotThereYetAsWell) {
  meet_as_shards();
  join();
  const auto post_some = [&](int count) {
    for (int i = 0; i < count; ++i) post_entry();
    read_all(1);
  };
  post_some(3);
  EXPECT_EQ(*read, 0U);
  EXPECT_THAT(workers->waits(), IsEmpty());
  post_some(20);
  EXPECT_THAT(workers->waits(), SizeIs(1));
  servers->add({duty::shard, 1}, hears);
  read_all(10);
  EXPECT_EQ(*read, 23U);
  EXPECT_THAT(workers->waits(), IsEmpty());
}

/// The last message comes when its receiver is there, and before those that waited have been handed out.
TEST_F(MessageBounds, KeepTheOrderOfMessagesForAnActorThatIsStillToCome) {
  meet_as_shards();
  join();
  const auto say = [&](std::uint64_t step) {
    workers->post({duty::shard, 1}, speaker, kind_of<order_entry>(),
                  caf::make_message(order_entry{order_entry::kind::gradient, {0}, {step}}));
    network.do_all();
  };
  say(1);
  say(2);
  carry_all();
  say(3);
  mailgrad::testing::listener<order_entry> late(actors.actors());
  servers->add({duty::shard, 1}, late.actor());
  carry_all();
  network.do_all();
  actors.run();
  std::vector<std::uint64_t> steps;
  for (const order_entry& e : late.heard<order_entry>()) steps.push_back(e.step.value);
  EXPECT_THAT(steps, ::testing::ElementsAre(1, 2, 3));
  messaging::kill(late.actor());
  actors.run();
}

/// As those between two parameter hosts, by way of the server.
TEST_F(MessageBounds, HoldForMessagesThatAThirdProcessDoesNotTake) {
  net::played_layers nobody;
  net::session apart(terms, nobody, now); // is joined by nobody
  third->attach(servers_end, apart);
  meet_as_shards();
  servers->add({duty::shard, 1}, third->add_far(actors.actors(), {duty::shard, 1}));
  join();
  for (int i = 0; i < 20; ++i) {
    post_entry();
    actors.run();
  }
  EXPECT_THAT(workers->waits(), SizeIs(1));
  third->ended({net::end_reason::lost, "it is gone"});
  carry_messages();
  EXPECT_THAT(workers->waits(), IsEmpty());
}

TEST_F(MessageBounds, EndASessionWhosePeerTakesNothing) {
  const message_kind kind = kind_of<wait_reason>();
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
