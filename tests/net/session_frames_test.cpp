#include <mailgrad/net/session.hpp>

#include <mailgrad/tests/net/session_fixture.hpp>

#include <string>

// Frames that a session does not take: those without credit, out of order, or out of place.

namespace mailgrad::net {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(SessionTest, HearsNothingBeforeBothConnectionsStand) {
  client.attach(plane::control, now);
  server.attach(plane::control, now);
  server.receive(
      plane::control,
      whole_frame({.kind = frame_kind::message, .run = 7, .session = 9, .sequence = 1}, as_bytes("m")), now);
  ASSERT_THAT(above_server.ends, SizeIs(1));
  EXPECT_THAT(above_server.ends[0].words, HasSubstr("expected no message before both connections stand"));
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

} // namespace
} // namespace mailgrad::net
