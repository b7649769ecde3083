#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/acceptor.hpp>
#include <mailgrad/actors/remote/admission.hpp>
#include <mailgrad/actors/remote/channel.hpp>
#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/net/tcp/tcp_network.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/actors/remote/layers_below_a_channel.hpp>
#include <mailgrad/tests/net/joined_sessions.hpp>
#include <mailgrad/tests/net/played_memory.hpp>

#include <gmock/gmock.h>

#include <array>
#include <new>
#include <stdexcept>

namespace mailgrad::remote {
namespace {

using namespace std::chrono_literals;
using mailgrad::testing::only;
using net::frame_kind, net::plane;
using ::testing::Contains, ::testing::ElementsAre, ::testing::HasSubstr, ::testing::IsEmpty, ::testing::Not,
    ::testing::SizeIs;

worker_paused paused(std::uint32_t worker) {
  worker_paused x;
  x.worker = {worker};
  return x;
}

/// Takes such messages and answers none.
template <class Message>
class silent {
public:
  static constexpr const char* name = "silent-actor";
  explicit silent(caf::event_based_actor* self) : self_(self) {}
  caf::behavior make_behavior() {
    return {messaging::on(self_, [](const Message&) {})};
  }

private:
  caf::event_based_actor* self_;
};

/// A channel whose other process says what the test says.
struct Channel : ::testing::Test {
  ~Channel() override {
    way->ended({net::end_reason::left, "the test has ended"});
    far.clear();
    home.wait();
  }

  void stand_in_for(actor_address a) { far.push_back(way->add_far(home.system(), a)); }

  /// A message for the coordinator, or for who takes it instead.
  template <class Message>
  net::bytes message(actor_address from, Message x) {
    net::bytes bytes;
    const auto write = [](net::frame_writer& w, actor_address a) {
      w.u8(static_cast<std::uint8_t>(a.what)).u32(a.number);
    };
    net::frame_writer head(bytes);
    head.u64(next++);
    const message_kind kind = kind_of(caf::make_message(x)).value();
    duty to = duty::coordinator;
    for (const duty other : {duty::feeder, duty::shard})
      if (!may_be_sent_to(kind, to)) to = other;
    write(head, {to});
    write(head, from);
    head.u16(kind).u8(0);
    const address_book nobody;
    byte_archive_writer fields;
    field_inspector inspector(fields, nobody);
    write_fields(kind, caf::make_message(x), inspector);
    head.raw(net::as_bytes(fields.bytes()));
    return bytes;
  }
  void expect_refused(const net::bytes& said, const std::string& words) {
    EXPECT_THAT([&] { way->message_came(said); },
                ::testing::ThrowsMessage<net::protocol_error>(HasSubstr(words)));
  }

  run_home home{{{device_kind::cpu, 0}}};
  net::tcp_network network;
  std::shared_ptr<channel> way = std::make_shared<channel>(network, channel_events{});
  std::vector<caf::actor> far;
  std::uint64_t next = 0;
};

TEST_F(Channel, TakesWhatAnActorOfTheOtherProcessMaySay) {
  stand_in_for({duty::worker, 1});
  EXPECT_NO_THROW(way->message_came(message({duty::worker, 1}, paused(1))));
  EXPECT_NO_THROW(way->message_came(message({}, paused(1))));
  expect_refused(message({duty::worker, 2}, paused(2)), "expected no worker_paused from worker 2");
  way->add({duty::shard, 0}, far.front()); // one that other processes reach through this one
  expect_refused(message({duty::shard, 0}, policy_switched{}), "expected no policy_switched from shard 0");
  expect_refused(message({duty::worker, 1}, policy_switched{}), "expected no policy_switched from worker 1");
  expect_refused(message({}, worker_lost{}), "expected no worker_lost from nobody");
}

/// What nobody says is checked as well as what an actor says.
TEST_F(Channel, TakesNothingAboutAnother) {
  for (const actor_address a : {actor_address{duty::worker, 1}, {duty::shard, 0}, {duty::shard, 2}})
    stand_in_for(a);
  policy_switched x;
  x.shard = {2};
  expect_refused(message({duty::worker, 1}, paused(2)),
                 "expected one about worker 1, which sent it, found one about worker 2");
  expect_refused(message({}, paused(2)),
                 "expected one about an actor of that process, found one about worker 2");
  expect_refused(message({duty::shard, 0}, x),
                 "expected one about shard 0, which sent it, found one about shard 2");
}

/// What is not answered lies in a mailbox, so there must not be more and more of it.
TEST_F(Channel, TakesNoThirdQuestionThatIsNotAnswered) {
  stand_in_for({duty::worker, 1});
  way->add({duty::feeder}, messaging::spawn<silent<next_batch>>(home.system()));
  const auto ask = [&] { return message({duty::worker, 1}, next_batch{{1}}); };
  way->message_came(ask());
  way->message_came(ask());
  expect_refused(ask(), "expected at most 2 next_batch that the feeder has not answered, found one more");
}

TEST_F(Channel, LoadsNoPlugInThatAnotherProcessNames) {
  stand_in_for({duty::coordinator});
  switch_policy x;
  x.policy = "./library.so:1";
  expect_refused(message({duty::coordinator}, x), "plug-in is loaded by the process that names it");
}

/// Gives values a place of its own, or takes them where they lie, and does meanwhile what the test says.
class played_form final : public body_form {
public:
  struct what_happens {
    std::function<void()> begins = [] {};
    std::function<caf::message()> ends = [] { return caf::make_message(worker_paused{}); };
    bool has_place = true;
    net::bytes place{};
    std::shared_ptr<const void> keeps{};
  };

  explicit played_form(std::shared_ptr<what_happens> to) : to_(std::move(to)) {}
  attached write(const caf::message&, const actor_address&, field_inspector&) override {
    const auto large = std::make_shared<net::bytes>(std::size_t{2} << 20);
    return {*large, large};
  }
  arriving begin(field_inspector&, const actor_address&, const actor_address&,
                 const announced& values) override {
    to_->begins();
    if (to_->has_place)
      to_->place.assign(values.bytes, std::byte{});
    else
      to_->keeps = values.lent->keeps;
    return {to_->place, [to = to_] { return to->ends(); }};
  }

private:
  std::shared_ptr<what_happens> to_;
};

/// A channel stands above the server's session, to which the client sends or lends a body.
struct ChannelWithABody : net::joined_sessions<layers_below_a_channel> {
  ChannelWithABody() { put_above(std::make_shared<channel>(network, channel_events{})); }
  ~ChannelWithABody() override {
    if (way) way->give_up("the test has ended");
    far = nullptr;
    home.wait();
  }

  void put_above(std::shared_ptr<channel> above) {
    way = std::move(above);
    above_server.above = way.get();
    way->attach(end, server);
    way->take_form(kind, std::make_unique<played_form>(what));
  }
  void share_memory() {
    const auto memory = std::make_shared<net::played_memory>();
    client.share(memory);
    server.share(memory);
  }
  void give() {
    far = way->add_far(home.system(), {duty::worker, 1});
    join();
    ASSERT_TRUE(client.send_body(first_message_with_values(kind), *body, body));
    carry(client, server, plane::bulk);
  }

  const message_kind kind = kind_of(caf::make_message(worker_paused{})).value();
  run_home home{{{device_kind::cpu, 0}}};
  waiting_network network;
  std::shared_ptr<played_form::what_happens> what = std::make_shared<played_form::what_happens>();
  std::shared_ptr<channel> way;
  net::client_end end{{}, above_client, now}; // only its address counts
  std::shared_ptr<const net::bytes> body = std::make_shared<const net::bytes>(net::bytes_of("gradient"));
  caf::actor far;
};

/// The layers beside it fail, or its session ends while it is at work.
struct FailingChannel : ChannelWithABody {
  FailingChannel() { network.is_prompt = true; }
  void expect_ended(const std::string& words) {
    ASSERT_EQ(server.now_is(), net::session::state::ended);
    EXPECT_THAT(server.outcome()->words, HasSubstr(words));
  }
};

void find_no_memory() { throw std::bad_alloc(); }
caf::message find_no_shape() { throw std::invalid_argument("shape: 9 extents are too many"); }

TEST_F(FailingChannel, EndsItsSessionIfThereIsNoMemoryForABody) {
  what->begins = find_no_memory;
  give();
  expect_ended("message: ");
}

/// The credit of the gradient that is refused goes to the next in order, which may be the same worker.
TEST_F(FailingChannel, EndsItsSessionIfAGradientIsRefusedThatHasCredit) {
  const auto credit = std::make_shared<gradient_credit>(std::vector<std::uint32_t>{0}, 1);
  std::uint32_t given = 0;
  credit->add(1, {1}, [this, &given](std::uint32_t bodies) {
    given += bodies;
    way->allow(bodies);
  });
  credit->await(0, rank{1}, {});
  what->begins = [&] {
    const auto held = credit->arriving(1, 0);
    find_no_memory();
  };
  give();
  expect_ended("message: ");
  EXPECT_EQ(given, 2U);
}

TEST_F(FailingChannel, EndsItsSessionIfABodyMakesNoMessage) {
  what->ends = find_no_shape;
  give();
  expect_ended("message: shape: 9 extents are too many");
}

TEST_F(FailingChannel, EndsItsSessionIfALentBodyMakesNoMessage) {
  what->ends = find_no_shape;
  share_memory();
  give();
  expect_ended("message: shape: 9 extents are too many");
}

/// Its owner lets it go when it hears of the end.
TEST_F(FailingChannel, LivesUntilItHasLookedAtASessionThatItEnded) {
  bool was_there = false;
  const std::weak_ptr<channel> known = way;
  put_above(std::make_shared<channel>(network, channel_events{{}, [&](const net::ending&) {
                                                                const std::weak_ptr<channel> seen = way;
                                                                way.reset();
                                                                was_there = !seen.expired();
                                                              }}));
  way->post({duty::worker, 1}, {}, kind, caf::make_message(worker_paused{})); // waits until it is joined
  client.attach(plane::control, now);
  carry(client, server, plane::control);
  server.attach(plane::control, now);
  carry(server, client, plane::control);
  client.attach(plane::bulk, now);
  carry(client, server, plane::bulk);
  server.attach(plane::bulk, now);
  expect_ended("a message of 2 MiB is more than the 1 MiB that a session carries");
  EXPECT_TRUE(was_there) << "flush() still reads its members";
}

/// Values that the other process lends.
struct ChannelLoans : ChannelWithABody {
  ChannelLoans() {
    what->has_place = false;
    share_memory();
  }
  std::vector<frame_kind> said_after_work() {
    network.do_all();
    return carry(server, client, plane::bulk);
  }
};

TEST_F(ChannelLoans, AreGivenBackWhenNobodyHoldsThemAnyMore) {
  give();
  ASSERT_TRUE(what->keeps);
  EXPECT_THAT(said_after_work(), IsEmpty());
  EXPECT_EQ(body.use_count(), 2);
  what->keeps.reset();
  EXPECT_THAT(said_after_work(), ElementsAre(frame_kind::returned));
  EXPECT_EQ(body.use_count(), 1);
}

TEST_F(ChannelLoans, AreCopiedToThePlaceOfAFormAndGivenBackAtOnce) {
  what->has_place = true;
  give();
  EXPECT_EQ(what->place, *body);
  EXPECT_THAT(said_after_work(), ElementsAre(frame_kind::returned));
  EXPECT_EQ(body.use_count(), 1);
}

TEST_F(ChannelLoans, AreForgottenWithTheirSession) {
  give();
  server.leave("enough", now);
  what->keeps.reset();
  EXPECT_THAT(network.posted, IsEmpty());
}

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
  void say_too_much() {
    for (std::uint32_t i = 0; i <= terms.messages; ++i) say();
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

TEST_F(ChannelWaits, NameWhoHasNoCreditAndForHowLong) {
  EXPECT_THAT(workers->waits(), IsEmpty());
  join();
  for (std::uint32_t i = 0; i < terms.messages; ++i) say();
  EXPECT_THAT(workers->waits(), IsEmpty()) << "there is credit";
  say();
  pass(100ms);
  EXPECT_EQ(only(workers->waits()).what,
            "worker 2 (incarnation 3) waits for credit of server: all 4 messages that it may "
            "have sent are under way");
  EXPECT_EQ(workers->waits()[0].span, net::instant{100ms}.count());
  say(); // and waits on, not anew
  EXPECT_EQ(workers->waits()[0].span, net::instant{100ms}.count());
}

TEST_F(ChannelWaits, AreToldToTheOtherSideByHeartbeats) {
  join();
  say_too_much();
  while (client.next(plane::control, now)) {
  } // these are lost, and with them the answer
  pass(net::timing{}.heartbeat());
  carry(client, server, plane::bulk);
  EXPECT_EQ(only(servers->waits()).what, workers->waits()[0].what);
}

/// The worker says that it is at step 7, and has two shards to send gradients to.
struct GradientsAtAdmission : ChannelWaits {
  void SetUp() override {
    join();
    const auto what = std::make_shared<played_form::what_happens>();
    what->ends = [] {
      push_gradient x;
      x.header.id.step = {7};
      return caf::make_message(x);
    };
    servers->take_form(kind_of<push_gradient>(), std::make_unique<played_form>(what));
    worker = servers->add_far(home.system(), {duty::worker, 1});
    servers->add({duty::shard}, shard = messaging::spawn<silent<push_gradient>>(home.system()));
    tell_progress({7, ""});
  }
  ~GradientsAtAdmission() override {
    messaging::kill(shard);
    worker = shard = nullptr;
  }
  void send_one() {
    ASSERT_TRUE(client.send_body(first_message_with_values(kind_of<push_gradient>()), {}, nullptr));
    carry(client, server, plane::bulk);
  }
  void tell_progress(const net::progress& p) {
    client.set_progress(p);
    pass(net::timing{}.heartbeat());
    carry(client, server, plane::control);
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
  EXPECT_EQ(only(admitted.waits()).what, "worker 2 waits for room at the parameter host of shards 1, 3 for "
                                         "its gradient of step 7: for the shards to read gradients of "
                                         "worker 4");
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
  tell_progress({7, "worker 2 waits for credit"});
  EXPECT_EQ(
      only(admitted.waits()).what,
      "worker 2 waits for its turn in the sum of step 7 at the parameter host of shards 1, 3: the gradient "
      "of worker 0 is awaited first");
  credit->await(3, std::nullopt, {});
  EXPECT_EQ(only(admitted.waits()).what, "worker 2 waits for credit");
  client.set_progress({8, ""});
  carry(client, server, plane::control);
  EXPECT_THAT(admitted.waits(), IsEmpty()) << "its end is told at once";
}

TEST_F(GradientsAtAdmission, GiveTheirCreditBackUnlessItIsKept) {
  servers->keep_credit(kind_of<push_gradient>(), [] { return true; });
  send_one();
  EXPECT_THAT(carry(server, client, plane::control), Not(Contains(frame_kind::credit)));
  servers->allow(1);
  network.do_all();
  EXPECT_THAT(carry(server, client, plane::control), Contains(frame_kind::credit));
}

TEST_F(GradientsAtAdmission, AreNoneOnceAllOfTheStepHaveCome) {
  send_one();
  ASSERT_FALSE(server.reads_bulk(false, now));
  EXPECT_TRUE(servers->held_gradient(2)) << "that of the other shard";
  EXPECT_FALSE(servers->held_gradient(1));
  server.leave("enough", now);
  EXPECT_FALSE(servers->held_gradient(2));
}

TEST_F(ChannelWaits, EndWithCreditAndWithTheSession) {
  join();
  say_too_much();
  ASSERT_THAT(workers->waits(), SizeIs(1));
  server.allow(terms.messages, 0);
  carry_all();
  EXPECT_THAT(workers->waits(), IsEmpty());
  say_too_much();
  client.leave("enough", now);
  EXPECT_THAT(workers->waits(), IsEmpty());
}

TEST_F(ChannelWaits, NameAParameterHostByItsShards) {
  client.call_server(name_of_host(std::array{0U, 2U}));
  join();
  say_too_much();
  EXPECT_THAT(only(workers->waits()).what,
              HasSubstr("waits for credit of the parameter host of shards 0, 2: "));
}

} // namespace
} // namespace mailgrad::remote
