#include <mailgrad/net/session.hpp>

#include <mailgrad/tests/net/session_fixture.hpp>

#include <string>

// By what a session tells that the other end lives, and when it takes silence for death.

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

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
  let_pass(1500ms, server);
  EXPECT_THAT(above_server.ends, IsEmpty());
  EXPECT_LE(server.deadline(), now + 1ms);
  let_pass(1ms, server);
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

/// Who was stopped has heard nobody meanwhile, however long that was.
TEST_F(SessionTest, TakesItsOwnPauseForNoSilenceOfThePeer) {
  join();
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
  join();
  EXPECT_FALSE(server.reads_bulk(false, now));
  EXPECT_FALSE(server.reads_bulk(false, now));
  EXPECT_THAT(above_server.holds, testing::ElementsAre(true)) << "once";
  for (int i = 0; i < 5; ++i) {
    let_pass(1s, server);
    server.receive(plane::control, {}, now);
  }
  EXPECT_THAT(above_server.ends, IsEmpty());
  EXPECT_TRUE(server.reads_bulk(true, now));
  EXPECT_THAT(above_server.holds, testing::ElementsAre(true, false));
  for (int i = 0; i < 13; ++i) {
    let_pass(500ms, server);
    server.receive(plane::control, {}, now);
  }
  EXPECT_THAT(above_server.ends, IsEmpty()) << "the system may try what was not taken as late as this";
  let_pass(1ms, server);
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

} // namespace
} // namespace mailgrad::net
