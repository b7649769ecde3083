#include <mailgrad/net/session.hpp>

#include <mailgrad/tests/net/joined_sessions.hpp>
#include <mailgrad/tests/net/played_memory.hpp>

#include <gmock/gmock.h>

#include <new>
#include <optional>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

/// The words of the only end that these layers were told.
std::string end_of(const played_layers& above) {
  return above.ends.size() == 1 ? above.ends[0].words : std::to_string(above.ends.size()) + " ends";
}

/// Two sessions that the test carries frames between.
template <class Layers>
struct Sessions : joined_sessions<Layers> {
  /// A frame comes that the other side has not sent.
  void forge(session& to, plane p, frame_kind kind, byte_view payload, std::uint64_t sequence = 2,
             std::uint64_t of_session = Sessions::terms.session) {
    const frame_header h{
        .kind = kind, .run = Sessions::terms.run, .session = of_session, .sequence = sequence};
    to.receive(p, whole_frame(h, payload), this->now);
  }
  void expect_both_ended(end_reason why) {
    for (const auto* above : {&this->above_client, &this->above_server}) {
      ASSERT_THAT(above->ends, SizeIs(1));
      EXPECT_EQ(above->ends[0].reason, why) << above->ends[0].words;
    }
  }
};
struct SessionStart : Sessions<played_layers> {
  void give(std::size_t size, const std::string& tag = "b") {
    body.assign(size, 'x');
    ASSERT_TRUE(client.send_body(bytes_of(tag), as_bytes(body), nullptr));
  }
  void come(plane p, session& from) {
    (&from == &client ? server : client).receive(p, taken(from, p, now), now);
  }
  void tick(instant span) {
    now += span;
    client.tick(now);
  }
  void refuse() {
    const refusal why{refusal_code::model, "12ab", "34cd"};
    client.attach(plane::control, now);
    client.receive(plane::control, whole_frame({.kind = frame_kind::refusal}, encode(why)), now);
  }

  std::string body;
};
struct SessionTest : SessionStart {
  void SetUp() override { join(); }
};

TEST_F(SessionStart, IsJoinedWhenBothConnectionsStand) {
  client.attach(plane::control, now);
  EXPECT_THAT(carry(client, server, plane::control), ElementsAre(frame_kind::hello));
  server.attach(plane::control, now);
  EXPECT_THAT(carry(server, client, plane::control), ElementsAre(frame_kind::welcome));
  EXPECT_EQ(above_client.joins, 0);
  EXPECT_TRUE(client.wants_bulk());
  client.attach(plane::bulk, now);
  carry(client, server, plane::bulk);
  server.attach(plane::bulk, now);
  EXPECT_EQ(above_server.joins, 1);
  EXPECT_EQ(above_client.joins, 0);
  carry(server, client, plane::bulk);
  EXPECT_EQ(above_client.joins, 1);
  EXPECT_EQ(above_client.said, terms);
  EXPECT_EQ(client.self_name(), "worker 2 (incarnation 3)");
  EXPECT_EQ(server.peer_name(), "worker 2 (incarnation 3)");
}

TEST_F(SessionStart, IsJoinedByAMessageThatOvertakesTheSecondWelcome) {
  client.attach(plane::control, now);
  carry(client, server, plane::control);
  server.attach(plane::control, now);
  carry(server, client, plane::control);
  client.attach(plane::bulk, now);
  carry(client, server, plane::bulk);
  server.attach(plane::bulk, now);
  ASSERT_TRUE(server.send(bytes_of("early")));
  carry(server, client, plane::control);
  EXPECT_EQ(above_client.joins, 1);
  EXPECT_THAT(above_client.messages, ElementsAre("early"));
  carry(server, client, plane::bulk);
  EXPECT_EQ(above_client.joins, 1);
  EXPECT_THAT(above_client.ends, IsEmpty());
}

TEST_F(SessionStart, EndsIfItIsNotCompleteInTime) {
  client.attach(plane::control, now);
  server.attach(plane::control, now);
  carry_all();
  let_pass(2s - 1ns, server, client);
  EXPECT_EQ(server.deadline(), now + 1ns);
  let_pass(1ns, server, client);
  expect_both_ended(end_reason::late);
  EXPECT_EQ(end_of(above_server),
            "worker 2 (incarnation 3): expected both connections within 2 s, found one");
}

TEST_F(SessionTest, HandsMessagesOnInOrder) {
  EXPECT_TRUE(client.send(bytes_of("one")));
  EXPECT_TRUE(client.send(bytes_of("two")));
  EXPECT_TRUE(server.send(bytes_of("three")));
  carry_all();
  EXPECT_THAT(above_server.messages, ElementsAre("one", "two"));
  EXPECT_THAT(above_client.messages, ElementsAre("three"));
}

TEST_F(SessionTest, PlacesBodiesWhereTheLayersAboveSay) {
  std::string all(3 * most_piece_bytes + 5, '\0');
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i * i >> 3);
  ASSERT_TRUE(client.send_body(bytes_of("gradient"), as_bytes(all), nullptr));
  EXPECT_THAT(carry(client, server, plane::bulk),
              ElementsAre(frame_kind::body, frame_kind::piece, frame_kind::piece, frame_kind::piece,
                          frame_kind::piece));
  ASSERT_THAT(above_server.bodies, SizeIs(1));
  EXPECT_EQ(above_server.bodies[0].first, "gradient");
  EXPECT_TRUE(above_server.bodies[0].second == all);
}

TEST_F(SessionTest, KeepsTheMemoryOfABodyUntilItsLastPieceIsLetGo) {
  auto memory = std::make_shared<std::string>(most_piece_bytes + 1, 'x');
  ASSERT_TRUE(client.send_body({}, as_bytes(*memory), memory));
  const std::weak_ptr<std::string> watched = memory;
  memory.reset();
  taken(client, plane::bulk, now);
  taken(client, plane::bulk, now);
  const auto last = client.next(plane::bulk, now);
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(last->body.size(), 1U);
}

TEST_F(SessionTest, SendsABodyOfNothing) {
  ASSERT_TRUE(client.send_body(bytes_of("empty"), {}, nullptr));
  ASSERT_TRUE(client.send_body(bytes_of("full"), as_bytes("x"), nullptr));
  carry_all();
  EXPECT_THAT(above_server.bodies, ElementsAre(std::pair{"empty", ""}, std::pair{"full", "x"}));
}

TEST_F(SessionTest, SaysWhoseCreditItWaitsFor) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(client.send(bytes_of("m")));
  EXPECT_EQ(client.waits(), "");
  EXPECT_FALSE(client.send(bytes_of("m")));
  EXPECT_EQ(client.waits(), "worker 2 (incarnation 3) waits for credit of server: all 4 messages that it may "
                            "have sent are under way");
  carry_all();
  EXPECT_THAT(above_server.messages, SizeIs(4));
  server.allow(2, 0);
  carry_all();
  EXPECT_EQ(above_client.credits, 1);
  EXPECT_EQ(client.waits(), "");
  for (const bool may : {true, true, false}) EXPECT_EQ(client.send(bytes_of("m")), may);
}

TEST_F(SessionTest, GivesBodiesCreditOfTheirOwn) {
  for (const bool may : {true, true, false}) EXPECT_EQ(server.send_body({}, as_bytes("x"), nullptr), may);
  EXPECT_EQ(server.waits(), "server waits for credit of worker 2 (incarnation 3): all 2 bodies that it may "
                            "have sent are under way");
  EXPECT_TRUE(server.send(bytes_of("m")));
  carry_all();
  client.allow(0, 1);
  carry_all();
  EXPECT_EQ(above_server.credits, 1);
  EXPECT_TRUE(server.send_body({}, as_bytes("x"), nullptr));
}

TEST_F(SessionTest, TellsBothSidesTheSameReason) {
  client.leave("the run is over", now);
  carry_all();
  expect_both_ended(end_reason::left);
  EXPECT_EQ(end_of(above_server), "worker 2 (incarnation 3) says: the run is over");
  EXPECT_TRUE(client.is_through());
  EXPECT_TRUE(server.is_through());
  EXPECT_EQ(client.next(plane::control, now), std::nullopt);
}

TEST_F(SessionTest, EndsIfItsControlConnectionCloses) {
  server.lose(plane::control, "Connection reset by peer", now);
  EXPECT_EQ(end_of(above_server),
            "worker 2 (incarnation 3): the control connection closed without a goodbye: "
            "Connection reset by peer");
  EXPECT_TRUE(server.is_through());
}

TEST_F(SessionTest, WaitsForTheReasonIfItsBulkConnectionClosesFirst) {
  client.leave("done", now);
  server.lose(plane::bulk, "end of file", now);
  EXPECT_THAT(above_server.ends, IsEmpty());
  carry_all();
  expect_both_ended(end_reason::left);
}

TEST_F(SessionTest, EndsIfItsBulkConnectionClosesForNoReason) {
  server.lose(plane::bulk, "end of file", now);
  EXPECT_EQ(server.deadline(), now + 250ms);
  now += 250ms;
  server.tick(now);
  carry_all();
  expect_both_ended(end_reason::lost);
}

TEST_F(SessionTest, IsDeafAfterItsEnd) {
  ASSERT_TRUE(client.send(bytes_of("late")));
  server.leave("enough", now);
  carry(client, server, plane::control);
  EXPECT_THAT(above_server.messages, IsEmpty());
  EXPECT_TRUE(server.place(plane::bulk).empty());
  EXPECT_THROW(server.send(bytes_of("x")), std::logic_error);
}

TEST_F(SessionStart, IsToldByARefusalWhatTheServerExpected) {
  refuse();
  ASSERT_EQ(end_of(above_client), "server refuses: model: expected 12ab, found 34cd");
  EXPECT_EQ(above_client.ends[0].reason, end_reason::refused);
}

/// A worker's session with a parameter host, whose server is not that of the run.
TEST_F(SessionStart, CallsItsServerAsItIsToldTo) {
  for (session* each : {&client, &server}) each->call_server("the parameter host of shard 1");
  EXPECT_EQ(client.peer_name(), "the parameter host of shard 1");
  EXPECT_EQ(server.self_name(), "the parameter host of shard 1");
  refuse();
  EXPECT_EQ(end_of(above_client), "the parameter host of shard 1 refuses: model: expected 12ab, found 34cd");
}

TEST_F(SessionStart, RefusesWhatItCannotSend) {
  EXPECT_THROW(client.send(bytes_of("early")), std::logic_error);
  join();
  EXPECT_THROW(client.send(bytes(most_message_bytes + 1)), std::length_error);
  EXPECT_THROW(client.send_body(bytes(most_tag_bytes + 1), {}, nullptr), std::length_error);
  EXPECT_THROW(client.send_body({}, bytes((1 << 20) + 1), nullptr), std::length_error);
}

// Frames that a session does not take: those without credit, out of order, or out of place.

TEST_F(SessionStart, HearsNothingBeforeBothConnectionsStand) {
  client.attach(plane::control, now);
  server.attach(plane::control, now);
  forge(server, plane::control, frame_kind::message, as_bytes("m"), 1);
  EXPECT_THAT(end_of(above_server), HasSubstr("expected no message before both connections stand"));
}

TEST_F(SessionTest, TakesNoMessageThatHasNoCredit) {
  for (std::uint64_t i = 2; i < 7; ++i) forge(server, plane::control, frame_kind::message, as_bytes("m"), i);
  EXPECT_THAT(above_server.messages, SizeIs(4));
  carry_all();
  expect_both_ended(end_reason::no_credit);
}

TEST_F(SessionTest, TakesNoBodyThatHasNoCreditOrIsTooLarge) {
  bytes begin;
  frame_writer{begin}.u64((1 << 20) + 1);
  forge(server, plane::bulk, frame_kind::body, begin);
  EXPECT_EQ(end_of(above_server),
            "worker 2 (incarnation 3): body: expected at most 1048576 bytes, found 1048577");
  EXPECT_THAT(above_server.place, IsEmpty());
}

TEST_F(SessionTest, IgnoresAFrameThatComesTwice) {
  ASSERT_TRUE(client.send(bytes_of("once")));
  const bytes frame = taken(client, plane::control, now);
  for (int i = 0; i < 2; ++i) server.receive(plane::control, frame, now);
  EXPECT_THAT(above_server.messages, ElementsAre("once"));
  EXPECT_EQ(server.duplicates(), 1U);
  ASSERT_TRUE(client.send(bytes_of("then")));
  carry_all();
  EXPECT_THAT(above_server.messages, ElementsAre("once", "then"));
}

TEST_F(SessionTest, NeverWritesAPieceTwice) {
  give(most_piece_bytes + 4);
  come(plane::bulk, client);
  const bytes piece = taken(client, plane::bulk, now);
  for (int i = 0; i < 2; ++i) server.receive(plane::bulk, piece, now);
  carry_all();
  ASSERT_THAT(above_server.bodies, SizeIs(1));
  EXPECT_EQ(above_server.bodies[0].second.size(), most_piece_bytes + 4);
}

TEST_F(SessionTest, EndsIfAFrameIsMissing) {
  ASSERT_TRUE(client.send(bytes_of("lost")));
  ASSERT_TRUE(client.send(bytes_of("found")));
  taken(client, plane::control, now);
  carry_all();
  EXPECT_THAT(above_server.messages, IsEmpty());
  expect_both_ended(end_reason::out_of_order);
  EXPECT_THAT(end_of(above_server),
              HasSubstr("message: expected frame 2 of the control connection, found frame 3"));
}

TEST_F(SessionTest, TakesNothingOfAnotherIncarnation) {
  forge(server, plane::control, frame_kind::message, as_bytes("old"), 2, 8);
  EXPECT_THAT(above_server.messages, IsEmpty());
  carry_all();
  expect_both_ended(end_reason::superseded);
  EXPECT_THAT(end_of(above_server), HasSubstr("expected session 0000000000000009, found 0000000000000008"));
}

struct misplaced {
  frame_kind kind;
  plane on;
};
struct SessionOrder : SessionTest, WithParamInterface<misplaced> {};

TEST_P(SessionOrder, TakesNoFrameWhereItHasNoPlace) {
  const frame_kind kind = GetParam().kind;
  forge(server, GetParam().on, kind, bytes(most_payload_bytes(kind) < 8 ? 1 : 8));
  ASSERT_THAT(end_of(above_server), HasSubstr("expected no " + std::string(to_string(kind))));
  EXPECT_EQ(above_server.ends[0].reason, end_reason::malformed);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, SessionOrder,
    Values(misplaced{frame_kind::hello, plane::control}, misplaced{frame_kind::welcome, plane::bulk},
           misplaced{frame_kind::refusal, plane::control}, misplaced{frame_kind::message, plane::bulk},
           misplaced{frame_kind::credit, plane::bulk}, misplaced{frame_kind::goodbye, plane::bulk},
           misplaced{frame_kind::body, plane::control}, misplaced{frame_kind::piece, plane::control},
           misplaced{frame_kind::lent, plane::control}, misplaced{frame_kind::returned, plane::control}));

TEST_F(SessionTest, TakesNoPieceWithoutABody) {
  forge(server, plane::bulk, frame_kind::piece, bytes(3));
  EXPECT_THAT(end_of(above_server), HasSubstr("piece: expected 1 to 0 bytes of a body, found 3"));
}

TEST_F(SessionTest, TakesNoCreditBack) {
  bytes less;
  frame_writer{less}.u64(3).u64(2);
  forge(client, plane::control, frame_kind::credit, less);
  EXPECT_THAT(end_of(above_client),
              HasSubstr("credit: expected at least 4 messages and 2 bodies, found 3 and 2"));
}

using SessionWords = SessionTest;

TEST_F(SessionWords, NameTheReasonsThatThereAre) {
  client.leave("why", now);
  auto last = *client.next(plane::control, now);
  last.payload.front() = std::byte{11};
  server.receive(plane::control, whole_frame(decode_header(last.header), last.payload), now);
  ASSERT_EQ(server.now_is(), session::state::ended);
  EXPECT_THAT(server.outcome()->words, HasSubstr("expected a reason, found 11"));
}

struct layers_without_memory : played_layers {
  std::span<std::byte> place_of_body(byte_view, std::uint64_t) override { throw std::bad_alloc(); }
};

struct SessionWithoutMemory : joined_sessions<layers_without_memory> {};

TEST_F(SessionWithoutMemory, EndsAndLeavesTheProcessAlone) {
  join();
  const bytes body(10);
  ASSERT_TRUE(client.send_body(bytes_of("tag"), body, nullptr));
  carry(client, server, plane::bulk);
  ASSERT_EQ(server.now_is(), session::state::ended);
  EXPECT_EQ(server.outcome()->reason, end_reason::failed);
  EXPECT_THAT(server.outcome()->words, HasSubstr("bad_alloc"));
}

// By what a session tells that the other end lives, and when it takes silence for death.

TEST_F(SessionTest, SaysEachHeartbeatThatItLivesAndHowFarItIs) {
  client.set_progress({17, "worker 1 at the barrier"});
  EXPECT_EQ(client.deadline(), now + 250ms);
  tick(250ms);
  for (const plane p : {plane::control, plane::bulk})
    EXPECT_THAT(carry(client, server, p), ElementsAre(frame_kind::heartbeat));
  EXPECT_EQ(server.peer_progress(), (progress{17, "worker 1 at the barrier"}));
  EXPECT_EQ(server.last_heard(), now);
}

/// What either connection has told may still be on its way there.
TEST_F(SessionTest, TellsOnBothConnectionsAtOnceThatAWaitIsOver) {
  client.set_progress({17, "worker 1 at the barrier"});
  tick(250ms);
  carry_all();
  client.set_progress({18, ""});
  for (const plane p : {plane::control, plane::bulk})
    EXPECT_THAT(carry(client, server, p), ElementsAre(frame_kind::heartbeat));
  EXPECT_EQ(server.peer_progress(), (progress{18, ""}));
  client.set_progress({19, ""});
  EXPECT_THAT(carry(client, server, plane::control), IsEmpty()) << "no wait was told";
}

TEST_F(SessionTest, TakesSilenceOfMoreThanSixHeartbeatsForDeath) {
  let_pass(1500ms, server);
  EXPECT_THAT(above_server.ends, IsEmpty());
  EXPECT_LE(server.deadline(), now + 1ms);
  let_pass(1ms, server);
  EXPECT_EQ(end_of(above_server),
            "worker 2 (incarnation 3): expected a sign of life each 250 ms, found none on "
            "the control connection for 1.5 s");
  carry_all();
  expect_both_ended(end_reason::silent);
}

TEST_F(SessionTest, TakesAnyByteForASignOfLife) {
  give(100);
  const bytes begin = taken(client, plane::bulk, now);
  for (std::size_t i = 0; i < begin.size(); ++i) {
    now += 1s;
    server.receive(plane::control, {}, now);
    server.receive(plane::bulk, byte_view{begin}.subspan(i, 1), now);
    server.tick(now);
  }
  EXPECT_THAT(above_server.ends, IsEmpty());
}

/// Who was stopped has heard nobody meanwhile, however long that was.
TEST_F(SessionTest, TakesItsOwnPauseForNoSilenceOfThePeer) {
  let_pass(500ms, server);
  now += 1h;
  server.tick(now);
  EXPECT_THAT(above_server.ends, IsEmpty());
  let_pass(1s, server);
  EXPECT_THAT(above_server.ends, IsEmpty());
  let_pass(1ms, server);
  ASSERT_THAT(above_server.ends, SizeIs(1)) << "it was silent before and after";
}

/// A run is over without its parameter hosts, so one of them may be stopped for long.
TEST_F(SessionTest, WaitsLongForAParameterHost) {
  welcome of_host = terms;
  of_host.you = {role::shard, 0};
  played_layers above;
  session host_of(of_host, above, now);
  host_of.attach(plane::control, now);
  host_of.attach(plane::bulk, now);
  let_pass(60s, host_of);
  EXPECT_THAT(above.ends, IsEmpty());
  let_pass(1ms, host_of);
  ASSERT_THAT(above.ends, SizeIs(1));
  EXPECT_EQ(above.ends[0].reason, end_reason::silent);
}

TEST_F(SessionTest, TakesABulkConnectionThatItDoesNotReadForNoSilence) {
  const auto control_comes_each = [this](instant span, int times) {
    for (int i = 0; i < times; ++i) {
      let_pass(span, server);
      server.receive(plane::control, {}, now);
    }
  };
  EXPECT_FALSE(server.reads_bulk(false, now));
  EXPECT_FALSE(server.reads_bulk(false, now));
  EXPECT_THAT(above_server.holds, ElementsAre(true)) << "once";
  control_comes_each(1s, 5);
  EXPECT_THAT(above_server.ends, IsEmpty());
  EXPECT_TRUE(server.reads_bulk(true, now));
  EXPECT_THAT(above_server.holds, ElementsAre(true, false));
  control_comes_each(500ms, 13);
  EXPECT_THAT(above_server.ends, IsEmpty()) << "the system may try what was not taken as late as this";
  let_pass(1ms, server);
  EXPECT_THAT(end_of(above_server), HasSubstr("none on the bulk connection"));
}

/// The layers above may be gone after ended().
TEST_F(SessionTest, TellsNobodyThatItReadsAgainWhenItHasEnded) {
  EXPECT_FALSE(server.reads_bulk(false, now));
  server.end({end_reason::failed, "enough"}, now);
  ASSERT_THAT(above_server.ends, SizeIs(1));
  EXPECT_TRUE(server.reads_bulk(true, now));
  EXPECT_THAT(above_server.holds, ElementsAre(true));
}

TEST_F(SessionTest, ReadsABodyThatIsUnderWayToItsEnd) {
  give(100);
  come(plane::bulk, client);
  EXPECT_TRUE(server.reads_bulk(false, now));
  come(plane::bulk, client);
  EXPECT_FALSE(server.reads_bulk(false, now));
  EXPECT_THAT(above_server.bodies, SizeIs(1));
}

TEST_F(SessionTest, NoticesThatOneOfItsConnectionsIsSilent) {
  for (int i = 0; i < 8; ++i) {
    tick(250ms);
    server.tick(now);
    carry(client, server, plane::control);
  }
  EXPECT_THAT(end_of(above_server), HasSubstr("none on the bulk connection"));
}

TEST_F(SessionTest, SendsAHeartbeatBetweenTwoPieces) {
  give(4 * most_piece_bytes, "");
  taken(client, plane::bulk, now);
  taken(client, plane::bulk, now);
  tick(250ms);
  for (const frame_kind kind : {frame_kind::heartbeat, frame_kind::piece})
    EXPECT_EQ(decode_header(client.next(plane::bulk, now)->header).kind, kind);
}

/// Layers that keep what is lent to them.
struct keeping_layers : played_layers {
  bool body_lent(byte_view tag, const borrowed& body, std::uint64_t number) override {
    if (!keeps) return session_events::body_lent(tag, body, number);
    lent.emplace(number, std::string(as_text(body.bytes)));
    return true;
  }

  bool keeps = true;
  std::map<std::uint64_t, std::string> lent;
};

/// Bodies that the peer may read where they lie.
struct SessionLoans : Sessions<keeping_layers> {
  void SetUp() override {
    client.share(memory);
    server.share(memory);
    join();
  }
  bool give() { return client.send_body(bytes_of("tag"), *body, body); }
  void lend() {
    ASSERT_TRUE(give());
    carry(client, server, plane::bulk);
  }
  /// A frame comes that lends so many bytes.
  void forge_loan(std::uint64_t begin, std::uint64_t block_bytes, std::uint64_t size,
                  std::uint64_t sequence = 2) {
    bytes payload;
    frame_writer{payload}.u64(begin).u64(block_bytes).u64(0).u64(size);
    forge(server, plane::bulk, frame_kind::lent, payload, sequence);
  }

  std::shared_ptr<played_memory> memory = std::make_shared<played_memory>();
  std::shared_ptr<const bytes> body = std::make_shared<const bytes>(bytes_of("gradient"));
};

TEST_F(SessionLoans, LeaveABodyWhereItLies) {
  ASSERT_TRUE(give());
  EXPECT_THAT(carry(client, server, plane::bulk), ElementsAre(frame_kind::lent));
  EXPECT_THAT(above_server.lent, ElementsAre(Pair(0, "gradient")));
  EXPECT_THAT(above_server.bodies, IsEmpty());
  EXPECT_EQ(body.use_count(), 2) << "it is held until it is given back";
  server.give_back(0);
  EXPECT_THAT(carry(server, client, plane::bulk), ElementsAre(frame_kind::returned));
  EXPECT_EQ(body.use_count(), 1);
  EXPECT_EQ(memory->lent(), 0);
}

TEST_F(SessionLoans, MayBeGivenBackInAnyOrder) {
  lend();
  lend();
  server.give_back(1);
  carry(server, client, plane::bulk);
  EXPECT_EQ(body.use_count(), 2);
  server.give_back(0);
  carry(server, client, plane::bulk);
  EXPECT_EQ(body.use_count(), 1);
}

TEST_F(SessionLoans, AreCopiedByLayersThatKeepNothing) {
  above_server.keeps = false;
  lend();
  EXPECT_THAT(above_server.bodies, ElementsAre(Pair("tag", "gradient")));
  carry(server, client, plane::bulk);
  EXPECT_EQ(body.use_count(), 1) << "it was given back at once";
}

TEST_F(SessionLoans, AreNotMadeOfWhatThePeerCannotSee) {
  memory->lends_nothing = true;
  ASSERT_TRUE(give());
  EXPECT_THAT(carry(client, server, plane::bulk), ElementsAre(frame_kind::body, frame_kind::piece));
  EXPECT_EQ(above_server.bodies.size(), 1U);
}

TEST_F(SessionLoans, TakeCreditAsBodiesDo) {
  ASSERT_TRUE(give());
  ASSERT_TRUE(give());
  EXPECT_FALSE(give()) << "two may be under way";
  carry(client, server, plane::bulk);
  server.allow(0, 1);
  carry(server, client, plane::control);
  EXPECT_TRUE(give());
}

TEST_F(SessionLoans, StayAsTheyAreWhenTheSessionEnds) {
  lend();
  ASSERT_TRUE(give()); // the peer never hears of this one
  client.leave("enough", now);
  EXPECT_EQ(memory->abandoned.size(), 1U);
  EXPECT_EQ(body.use_count(), 2);
  EXPECT_EQ(memory->lent(), 1);
  carry(client, server, plane::control);
  server.give_back(0);
  EXPECT_FALSE(server.next(plane::bulk, now)) << "nobody listens any more";
}

TEST_F(SessionLoans, ThatWereNotMadeCannotBeGivenBack) {
  lend();
  for (int i = 0; i < 2; ++i) server.give_back(0);
  carry(server, client, plane::bulk);
  EXPECT_THAT(end_of(above_client), HasSubstr("returned: expected a body that is lent, found number 0"));
}

TEST_F(SessionLoans, AreRefusedWithoutMemoryInCommon) {
  server.share(nullptr);
  lend();
  EXPECT_THAT(end_of(above_server), HasSubstr("lent: expected bodies in pieces"));
}

TEST_F(SessionLoans, TakeNoMoreCreditThanThereIs) {
  for (std::uint64_t i = 2; i < 5; ++i) forge_loan(reinterpret_cast<std::uintptr_t>(body->data()), 8, 8, i);
  ASSERT_EQ(above_server.ends.size(), 1U);
  EXPECT_EQ(above_server.ends[0].reason, end_reason::no_credit);
  EXPECT_EQ(above_server.lent.size(), 2U);
}

TEST_F(SessionLoans, AreNoLargerThanTheWelcomeAllows) {
  forge_loan(0, 1, (1 << 20) + 1);
  EXPECT_THAT(end_of(above_server), HasSubstr("lent: expected at most 1048576 bytes, found 1048577"));
}

} // namespace
} // namespace mailgrad::net
