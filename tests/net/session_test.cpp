#include <mailgrad/net/session.hpp>

#include <mailgrad/tests/net/joined_sessions.hpp>

#include <gmock/gmock.h>

#include <stdexcept>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct SessionTest : joined_sessions<> {
  void expect_both_ended(end_reason why) {
    ASSERT_THAT(above_client.ends, SizeIs(1));
    ASSERT_THAT(above_server.ends, SizeIs(1));
    EXPECT_EQ(above_client.ends[0].reason, why) << above_client.ends[0].words;
    EXPECT_EQ(above_server.ends[0].reason, why) << above_server.ends[0].words;
  }
};

TEST_F(SessionTest, IsJoinedWhenBothConnectionsStand) {
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

TEST_F(SessionTest, IsJoinedByAMessageThatOvertakesTheSecondWelcome) {
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

TEST_F(SessionTest, HearsNothingBeforeBothConnectionsStand) {
  client.attach(plane::control, now);
  server.attach(plane::control, now);
  server.receive(
      plane::control,
      whole_frame({.kind = frame_kind::message, .run = 7, .session = 9, .sequence = 1}, as_bytes("m")), now);
  ASSERT_THAT(above_server.ends, SizeIs(1));
  EXPECT_THAT(above_server.ends[0].words, HasSubstr("expected no message before both connections stand"));
}

TEST_F(SessionTest, EndsIfItIsNotCompleteInTime) {
  client.attach(plane::control, now);
  server.attach(plane::control, now);
  carry_all();
  EXPECT_EQ(server.deadline(), now + 2s);
  now += 2s;
  server.tick(now);
  client.tick(now);
  expect_both_ended(end_reason::late);
  EXPECT_EQ(above_server.ends[0].words,
            "worker 2 (incarnation 3): expected both connections within 2 s, found one");
}

TEST_F(SessionTest, HandsMessagesOnInOrder) {
  join();
  EXPECT_TRUE(client.send(bytes_of("one")));
  EXPECT_TRUE(client.send(bytes_of("two")));
  EXPECT_TRUE(server.send(bytes_of("three")));
  carry_all();
  EXPECT_THAT(above_server.messages, ElementsAre("one", "two"));
  EXPECT_THAT(above_client.messages, ElementsAre("three"));
}

TEST_F(SessionTest, SaysEachHeartbeatThatItLivesAndHowFarItIs) {
  join();
  client.set_progress({17, "worker 1 at the barrier"});
  EXPECT_EQ(client.deadline(), now + 250ms);
  now += 250ms;
  client.tick(now);
  EXPECT_THAT(carry(client, server, plane::control), ElementsAre(frame_kind::heartbeat));
  EXPECT_THAT(carry(client, server, plane::bulk), ElementsAre(frame_kind::heartbeat));
  EXPECT_EQ(server.peer_progress(), (progress{17, "worker 1 at the barrier"}));
  EXPECT_EQ(server.last_heard(), now);
}

/// What either connection has told may still be on its way there.
TEST_F(SessionTest, TellsOnBothConnectionsAtOnceThatAWaitIsOver) {
  join();
  client.set_progress({17, "worker 1 at the barrier"});
  now += 250ms;
  client.tick(now);
  carry_all();
  client.set_progress({18, ""});
  EXPECT_THAT(carry(client, server, plane::control), ElementsAre(frame_kind::heartbeat));
  EXPECT_THAT(carry(client, server, plane::bulk), ElementsAre(frame_kind::heartbeat));
  EXPECT_EQ(server.peer_progress(), (progress{18, ""}));
  client.set_progress({19, ""});
  EXPECT_THAT(carry(client, server, plane::control), IsEmpty()) << "no wait was told";
}

TEST_F(SessionTest, TakesSilenceOfMoreThanSixHeartbeatsForDeath) {
  join();
  now += 1500ms;
  server.tick(now);
  EXPECT_THAT(above_server.ends, IsEmpty());
  EXPECT_LE(server.deadline(), now + 1ms);
  now += 1ms;
  server.tick(now);
  ASSERT_THAT(above_server.ends, SizeIs(1));
  EXPECT_EQ(above_server.ends[0].words,
            "worker 2 (incarnation 3): expected a sign of life each 250 ms, found none on "
            "the control connection for 1.5 s");
  carry_all();
  expect_both_ended(end_reason::silent);
}

TEST_F(SessionTest, TakesAnyByteForASignOfLife) {
  join();
  const std::string body(100, 'x');
  ASSERT_TRUE(client.send_body(bytes_of("b"), as_bytes(body), nullptr));
  const bytes begin = taken(client, plane::bulk, now);
  for (std::size_t i = 0; i < begin.size(); ++i) {
    now += 1s;
    server.receive(plane::control, {}, now);
    server.receive(plane::bulk, byte_view{begin}.subspan(i, 1), now);
    server.tick(now);
  }
  EXPECT_THAT(above_server.ends, IsEmpty());
}

TEST_F(SessionTest, TakesABulkConnectionThatItDoesNotReadForNoSilence) {
  join();
  EXPECT_FALSE(server.reads_bulk(false, now));
  EXPECT_FALSE(server.reads_bulk(false, now));
  EXPECT_THAT(above_server.holds, testing::ElementsAre(true)) << "once";
  for (int i = 0; i < 5; ++i) {
    now += 1s;
    server.receive(plane::control, {}, now);
    server.tick(now);
  }
  EXPECT_THAT(above_server.ends, IsEmpty());
  EXPECT_TRUE(server.reads_bulk(true, now));
  EXPECT_THAT(above_server.holds, testing::ElementsAre(true, false));
  now += 5s + 1500ms;
  server.receive(plane::control, {}, now);
  server.tick(now);
  EXPECT_THAT(above_server.ends, IsEmpty()) << "the system may try what was not taken as late as this";
  now += 1ms;
  server.receive(plane::control, {}, now);
  server.tick(now);
  ASSERT_THAT(above_server.ends, SizeIs(1));
  EXPECT_THAT(above_server.ends[0].words, HasSubstr("none on the bulk connection"));
}

/// The layers above may be gone after ended().
TEST_F(SessionTest, TellsNobodyThatItReadsAgainWhenItHasEnded) {
  join();
  EXPECT_FALSE(server.reads_bulk(false, now));
  server.end({end_reason::failed, "enough"}, now);
  ASSERT_THAT(above_server.ends, SizeIs(1));
  EXPECT_TRUE(server.reads_bulk(true, now));
  EXPECT_THAT(above_server.holds, testing::ElementsAre(true));
}

TEST_F(SessionTest, ReadsABodyThatIsUnderWayToItsEnd) {
  join();
  const std::string body(100, 'x');
  ASSERT_TRUE(client.send_body(bytes_of("b"), as_bytes(body), nullptr));
  server.receive(plane::bulk, taken(client, plane::bulk, now), now);
  EXPECT_TRUE(server.reads_bulk(false, now));
  server.receive(plane::bulk, taken(client, plane::bulk, now), now);
  EXPECT_FALSE(server.reads_bulk(false, now));
  EXPECT_THAT(above_server.bodies, SizeIs(1));
}

TEST_F(SessionTest, NoticesThatOneOfItsConnectionsIsSilent) {
  join();
  for (int i = 0; i < 8; ++i) {
    now += 250ms;
    client.tick(now);
    server.tick(now);
    carry(client, server, plane::control);
  }
  ASSERT_THAT(above_server.ends, SizeIs(1));
  EXPECT_THAT(above_server.ends[0].words, HasSubstr("none on the bulk connection"));
}

TEST_F(SessionTest, PlacesBodiesWhereTheLayersAboveSay) {
  join();
  std::string body(3 * most_piece_bytes + 5, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * i >> 3);
  ASSERT_TRUE(client.send_body(bytes_of("gradient"), as_bytes(body), nullptr));
  EXPECT_THAT(carry(client, server, plane::bulk),
              ElementsAre(frame_kind::body, frame_kind::piece, frame_kind::piece, frame_kind::piece,
                          frame_kind::piece));
  ASSERT_THAT(above_server.bodies, SizeIs(1));
  EXPECT_EQ(above_server.bodies[0].first, "gradient");
  EXPECT_TRUE(above_server.bodies[0].second == body);
}

TEST_F(SessionTest, SendsAHeartbeatBetweenTwoPieces) {
  join();
  const std::string body(4 * most_piece_bytes, 'x');
  ASSERT_TRUE(client.send_body({}, as_bytes(body), nullptr));
  taken(client, plane::bulk, now);
  taken(client, plane::bulk, now);
  now += 250ms;
  client.tick(now);
  EXPECT_EQ(decode_header(client.next(plane::bulk, now)->header).kind, frame_kind::heartbeat);
  EXPECT_EQ(decode_header(client.next(plane::bulk, now)->header).kind, frame_kind::piece);
}

TEST_F(SessionTest, KeepsTheMemoryOfABodyUntilItsLastPieceIsLetGo) {
  join();
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
  join();
  ASSERT_TRUE(client.send_body(bytes_of("empty"), {}, nullptr));
  ASSERT_TRUE(client.send_body(bytes_of("full"), as_bytes("x"), nullptr));
  carry_all();
  EXPECT_THAT(above_server.bodies, ElementsAre(std::pair{"empty", ""}, std::pair{"full", "x"}));
}

TEST_F(SessionTest, SaysWhoseCreditItWaitsFor) {
  join();
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
  EXPECT_TRUE(client.send(bytes_of("m")));
  EXPECT_TRUE(client.send(bytes_of("m")));
  EXPECT_FALSE(client.send(bytes_of("m")));
}

TEST_F(SessionTest, GivesBodiesCreditOfTheirOwn) {
  join();
  EXPECT_TRUE(server.send_body({}, as_bytes("x"), nullptr));
  EXPECT_TRUE(server.send_body({}, as_bytes("x"), nullptr));
  EXPECT_FALSE(server.send_body({}, as_bytes("x"), nullptr));
  EXPECT_EQ(server.waits(), "server waits for credit of worker 2 (incarnation 3): all 2 bodies that it may "
                            "have sent are under way");
  EXPECT_TRUE(server.send(bytes_of("m")));
  carry_all();
  client.allow(0, 1);
  carry_all();
  EXPECT_EQ(above_server.credits, 1);
  EXPECT_TRUE(server.send_body({}, as_bytes("x"), nullptr));
}

TEST_F(SessionTest, TakesNoMessageThatHasNoCredit) {
  join();
  for (std::uint64_t i = 0; i < 5; ++i)
    server.receive(
        plane::control,
        whole_frame({.kind = frame_kind::message, .run = 7, .session = 9, .sequence = 2 + i}, as_bytes("m")),
        now);
  EXPECT_THAT(above_server.messages, SizeIs(4));
  carry_all();
  expect_both_ended(end_reason::no_credit);
}

TEST_F(SessionTest, TakesNoBodyThatHasNoCreditOrIsTooLarge) {
  join();
  bytes begin;
  frame_writer{begin}.u64((1 << 20) + 1);
  server.receive(plane::bulk,
                 whole_frame({.kind = frame_kind::body, .run = 7, .session = 9, .sequence = 2}, begin), now);
  ASSERT_THAT(above_server.ends, SizeIs(1));
  EXPECT_EQ(above_server.ends[0].words,
            "worker 2 (incarnation 3): body: expected at most 1048576 bytes, found 1048577");
  EXPECT_THAT(above_server.place, IsEmpty());
}

TEST_F(SessionTest, IgnoresAFrameThatComesTwice) {
  join();
  ASSERT_TRUE(client.send(bytes_of("once")));
  const bytes frame = taken(client, plane::control, now);
  server.receive(plane::control, frame, now);
  server.receive(plane::control, frame, now);
  EXPECT_THAT(above_server.messages, ElementsAre("once"));
  EXPECT_EQ(server.duplicates(), 1U);
  ASSERT_TRUE(client.send(bytes_of("then")));
  carry_all();
  EXPECT_THAT(above_server.messages, ElementsAre("once", "then"));
}

TEST_F(SessionTest, NeverWritesAPieceTwice) {
  join();
  const std::string body(most_piece_bytes + 4, 'x');
  ASSERT_TRUE(client.send_body({}, as_bytes(body), nullptr));
  server.receive(plane::bulk, taken(client, plane::bulk, now), now);
  const bytes piece = taken(client, plane::bulk, now);
  server.receive(plane::bulk, piece, now);
  server.receive(plane::bulk, piece, now);
  carry_all();
  ASSERT_THAT(above_server.bodies, SizeIs(1));
  EXPECT_EQ(above_server.bodies[0].second.size(), most_piece_bytes + 4);
}

TEST_F(SessionTest, EndsIfAFrameIsMissing) {
  join();
  ASSERT_TRUE(client.send(bytes_of("lost")));
  ASSERT_TRUE(client.send(bytes_of("found")));
  taken(client, plane::control, now);
  carry_all();
  EXPECT_THAT(above_server.messages, IsEmpty());
  expect_both_ended(end_reason::out_of_order);
  EXPECT_THAT(above_server.ends[0].words,
              HasSubstr("message: expected frame 2 of the control connection, found frame 3"));
}

TEST_F(SessionTest, TakesNothingOfAnotherIncarnation) {
  join();
  server.receive(
      plane::control,
      whole_frame({.kind = frame_kind::message, .run = 7, .session = 8, .sequence = 2}, as_bytes("old")),
      now);
  EXPECT_THAT(above_server.messages, IsEmpty());
  carry_all();
  expect_both_ended(end_reason::superseded);
  EXPECT_THAT(above_server.ends[0].words,
              HasSubstr("expected session 0000000000000009, found 0000000000000008"));
}

struct misplaced {
  frame_kind kind;
  plane on;
};
struct SessionOrder : SessionTest, testing::WithParamInterface<misplaced> {};

TEST_P(SessionOrder, TakesNoFrameWhereItHasNoPlace) {
  join();
  const bytes payload(most_payload_bytes(GetParam().kind) < 8 ? 1 : 8);
  const frame_header h{.kind = GetParam().kind, .run = 7, .session = 9, .sequence = 2};
  server.receive(GetParam().on, whole_frame(h, payload), now);
  ASSERT_THAT(above_server.ends, SizeIs(1));
  EXPECT_EQ(above_server.ends[0].reason, end_reason::malformed);
  EXPECT_THAT(above_server.ends[0].words, HasSubstr("expected no " + std::string(to_string(h.kind))));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, SessionOrder,
    testing::Values(misplaced{frame_kind::hello, plane::control}, misplaced{frame_kind::welcome, plane::bulk},
                    misplaced{frame_kind::refusal, plane::control},
                    misplaced{frame_kind::message, plane::bulk}, misplaced{frame_kind::credit, plane::bulk},
                    misplaced{frame_kind::goodbye, plane::bulk}, misplaced{frame_kind::body, plane::control},
                    misplaced{frame_kind::piece, plane::control}, misplaced{frame_kind::lent, plane::control},
                    misplaced{frame_kind::returned, plane::control}));

TEST_F(SessionTest, TakesNoPieceWithoutABody) {
  join();
  server.receive(plane::bulk,
                 whole_frame({.kind = frame_kind::piece, .run = 7, .session = 9, .sequence = 2}, bytes(3)),
                 now);
  ASSERT_THAT(above_server.ends, SizeIs(1));
  EXPECT_THAT(above_server.ends[0].words, HasSubstr("piece: expected 1 to 0 bytes of a body, found 3"));
}

TEST_F(SessionTest, TellsBothSidesTheSameReason) {
  join();
  client.leave("the run is over", now);
  carry_all();
  expect_both_ended(end_reason::left);
  EXPECT_EQ(above_server.ends[0].words, "worker 2 (incarnation 3) says: the run is over");
  EXPECT_TRUE(client.is_through());
  EXPECT_TRUE(server.is_through());
  EXPECT_EQ(client.next(plane::control, now), std::nullopt);
}

TEST_F(SessionTest, EndsIfItsControlConnectionCloses) {
  join();
  server.lose(plane::control, "Connection reset by peer", now);
  ASSERT_THAT(above_server.ends, SizeIs(1));
  EXPECT_EQ(above_server.ends[0].words,
            "worker 2 (incarnation 3): the control connection closed without a goodbye: "
            "Connection reset by peer");
  EXPECT_TRUE(server.is_through());
}

TEST_F(SessionTest, WaitsForTheReasonIfItsBulkConnectionClosesFirst) {
  join();
  client.leave("done", now);
  server.lose(plane::bulk, "end of file", now);
  EXPECT_THAT(above_server.ends, IsEmpty());
  carry_all();
  expect_both_ended(end_reason::left);
}

TEST_F(SessionTest, EndsIfItsBulkConnectionClosesForNoReason) {
  join();
  server.lose(plane::bulk, "end of file", now);
  EXPECT_EQ(server.deadline(), now + 250ms);
  now += 250ms;
  server.tick(now);
  carry_all();
  expect_both_ended(end_reason::lost);
}

TEST_F(SessionTest, IsDeafAfterItsEnd) {
  join();
  ASSERT_TRUE(client.send(bytes_of("late")));
  server.leave("enough", now);
  carry(client, server, plane::control);
  EXPECT_THAT(above_server.messages, IsEmpty());
  EXPECT_TRUE(server.place(plane::bulk).empty());
  EXPECT_THROW(server.send(bytes_of("x")), std::logic_error);
}

TEST_F(SessionTest, TakesNoCreditBack) {
  join();
  bytes less;
  frame_writer{less}.u64(3).u64(2);
  client.receive(plane::control,
                 whole_frame({.kind = frame_kind::credit, .run = 7, .session = 9, .sequence = 2}, less), now);
  ASSERT_THAT(above_client.ends, SizeIs(1));
  EXPECT_THAT(above_client.ends[0].words,
              HasSubstr("credit: expected at least 4 messages and 2 bodies, found 3 and 2"));
}

TEST_F(SessionTest, IsToldByARefusalWhatTheServerExpected) {
  client.attach(plane::control, now);
  client.receive(
      plane::control,
      whole_frame({.kind = frame_kind::refusal}, encode(refusal{refusal_code::model, "12ab", "34cd"})), now);
  ASSERT_THAT(above_client.ends, SizeIs(1));
  EXPECT_EQ(above_client.ends[0].reason, end_reason::refused);
  EXPECT_EQ(above_client.ends[0].words, "server refuses: model: expected 12ab, found 34cd");
}

TEST_F(SessionTest, RefusesWhatItCannotSend) {
  EXPECT_THROW(client.send(bytes_of("early")), std::logic_error);
  join();
  EXPECT_THROW(client.send(bytes(most_message_bytes + 1)), std::length_error);
  EXPECT_THROW(client.send_body(bytes(most_tag_bytes + 1), {}, nullptr), std::length_error);
  EXPECT_THROW(client.send_body({}, bytes((1 << 20) + 1), nullptr), std::length_error);
}

/// A worker's session with a parameter host, whose server is not that of the run.
TEST_F(SessionTest, CallsItsServerAsItIsToldTo) {
  client.call_server("the parameter host of shard 1");
  server.call_server("the parameter host of shard 1");
  EXPECT_EQ(client.peer_name(), "the parameter host of shard 1");
  EXPECT_EQ(server.self_name(), "the parameter host of shard 1");
  client.attach(plane::control, now);
  client.receive(
      plane::control,
      whole_frame({.kind = frame_kind::refusal}, encode(refusal{refusal_code::model, "12ab", "34cd"})), now);
  ASSERT_THAT(above_client.ends, SizeIs(1));
  EXPECT_EQ(above_client.ends[0].words,
            "the parameter host of shard 1 refuses: model: expected 12ab, found 34cd");
}

} // namespace
} // namespace mailgrad::net
