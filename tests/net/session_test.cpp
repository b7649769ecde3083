#include <mailgrad/net/session.hpp>

#include <mailgrad/tests/net/session_fixture.hpp>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

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

TEST_F(SessionTest, EndsIfItIsNotCompleteInTime) {
  client.attach(plane::control, now);
  server.attach(plane::control, now);
  carry_all();
  let_pass(2s - 1ns, server, client);
  EXPECT_EQ(server.deadline(), now + 1ns);
  let_pass(1ns, server, client);
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
