#include <mailgrad/net/server_end.hpp>

#include <mailgrad/tests/net/played_layers.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

/// A server, and peers whose bytes are written by hand.
struct ServerEndTest : Test, doorkeeper {
  session_events& let_in(session& s, const std::string& from) override {
    came_from.push_back(from);
    sessions.push_back(&s);
    return *layers.emplace_back(std::make_unique<played_layers>());
  }
  void turned_away(const refusal& why, const std::string& from) override {
    refusals.push_back(why.words());
    turned_away_from.push_back(from);
  }

  instant now = 10s;
  std::uint64_t drawn = 100;
  std::vector<std::unique_ptr<played_layers>> layers;
  std::vector<session*> sessions;
  std::vector<std::string> refusals;
  std::vector<std::string> came_from, turned_away_from;
  std::uint64_t connections = 0;
  server_end server{{.demands = demands_of({{"run", key_text(7)}}, {role::worker}, {}),
                     .slots = {{role::worker, 2}},
                     .run = 7,
                     .most_connections = 20,
                     .draw = [this] { return drawn++; }},
                    *this};

  void let_pass(instant span) {
    for (const instant end = now + span; now < end;) {
      now = std::min<instant>(end, now + timing::usual_heartbeat);
      server.tick(now);
    }
  }
  connection_id open() {
    const connection_id c{++connections};
    server.opened(c, fmt::format("10.0.0.{}:7", c.value), now);
    return c;
  }
  connection_id say_bytes(byte_view all) {
    const connection_id c = open();
    server.received(c, all, now);
    return c;
  }
  connection_id say(const hello& h) {
    return say_bytes(whole_frame({.kind = frame_kind::hello}, encode(to_features(h))));
  }
  connection_id say_bulk(std::uint64_t session) {
    return say({.connection = plane::bulk, .session = session});
  }
  std::string refusal_to(connection_id c) {
    const auto frame = server.next(c, now);
    if (!frame || decode_header(frame->header).kind != frame_kind::refusal) return "no refusal";
    EXPECT_TRUE(server.is_through(c));
    return decode_refusal(frame->payload).words();
  }
  welcome welcome_to(connection_id c) {
    const auto frame = server.next(c, now);
    EXPECT_TRUE(frame);
    return decode_welcome(frame->payload);
  }
};

TEST_F(ServerEndTest, LetsInWhoFits) {
  const welcome terms = welcome_to(say({}));
  EXPECT_EQ(terms.you, (member{role::worker, 0}));
  EXPECT_EQ(terms.incarnation, 1U);
  EXPECT_EQ(terms.session, 100U);
  EXPECT_EQ(welcome_to(say_bulk(100)), terms);
  EXPECT_THAT(refusals, IsEmpty());
}

TEST_F(ServerEndTest, TellsBothSidesWhyItRefuses) {
  const std::string why = refusal_to(say({.says = {{"run", key_text(8)}}}));
  EXPECT_EQ(why, "run: expected 0000000000000007, found 0000000000000008");
  EXPECT_THAT(refusals, ElementsAre(why));
  EXPECT_THAT(sessions, IsEmpty());
}

TEST_F(ServerEndTest, TellsItsDoorkeeperWhereEachComesFrom) {
  welcome_to(say({}));
  say({.says = {{"run", key_text(8)}}});
  open();
  let_pass(2s);
  EXPECT_THAT(came_from, ElementsAre("10.0.0.1:7"));
  EXPECT_THAT(turned_away_from, ElementsAre("10.0.0.2:7", "10.0.0.3:7")) << "the last one said nothing";
}

TEST_F(ServerEndTest, RefusesAnotherVersionThatTheHeaderTells) {
  for (const std::uint16_t version : {std::uint16_t{4}, std::uint16_t{6}}) {
    const std::string both = "protocol: expected 5, found " + std::to_string(version);
    EXPECT_EQ(refusal_to(say_bytes(
                  whole_frame({.version = version, .kind = frame_kind::hello}, encode(to_features({}))))),
              both);
    EXPECT_EQ(refusals.back(), both);
  }
}

TEST_F(ServerEndTest, RefusesNumbersThatItDoesNotHave) {
  EXPECT_EQ(refusal_to(say({.number = 2})), "place: expected one of 2 workers, found worker 2");
  welcome_to(say({}));
  EXPECT_EQ(welcome_to(say({})).you.number, 1U);
  EXPECT_EQ(refusal_to(say({})), "place: expected a free place of 2 for workers, found all taken");
  EXPECT_EQ(refusal_to(say({.part = role::shard})), "role: expected worker, found shard");
}

/// Or else nobody could come any more.
TEST_F(ServerEndTest, RefusesAnIncarnationThatIsMuchTooHigh) {
  EXPECT_EQ(refusal_to(say({.number = 1, .incarnation = UINT32_MAX})),
            "incarnation: expected at most 10000 of worker 1, found 4294967295");
  EXPECT_EQ(welcome_to(say({.number = 1})).incarnation, 1U);
}

TEST_F(ServerEndTest, FencesOffAnOlderIncarnation) {
  welcome_to(say({.number = 1, .incarnation = 5}));
  EXPECT_EQ(refusal_to(say({.number = 1, .incarnation = 5})),
            "incarnation: expected 6 or later of worker 1, found 5");
  now += 500ms;
  EXPECT_EQ(welcome_to(say({.number = 1})).incarnation, 6U);
}

TEST_F(ServerEndTest, RefusesTheNumberOfAMemberThatIsThere) {
  welcome_to(say({.number = 1}));
  now += 499ms;
  EXPECT_EQ(refusal_to(say({.number = 1})),
            "place: expected worker 1 to be gone, found its incarnation 1, heard 499 ms ago");
  EXPECT_THAT(layers[0]->ends, IsEmpty());
  EXPECT_EQ(server.incarnations().highest({role::worker, 1}), 1U) << "the refusal costs no incarnation";
  now += 1ms;
  EXPECT_EQ(welcome_to(say({.number = 1})).incarnation, 2U) << "it may be that nobody is there any more";
  EXPECT_THAT(layers[0]->ends, SizeIs(1));
}

TEST_F(ServerEndTest, EndsASessionWhoseMemberComesBack) {
  const connection_id before = say({.number = 1});
  welcome_to(before);
  EXPECT_EQ(welcome_to(say({.number = 1, .incarnation = 2})).incarnation, 2U);
  ASSERT_THAT(layers[0]->ends, SizeIs(1));
  EXPECT_EQ(layers[0]->ends[0],
            (ending{end_reason::superseded, "worker 1: incarnation 2 took the place of incarnation 1"}));
  EXPECT_EQ(decode_header(server.next(before, now)->header).kind, frame_kind::goodbye);
  EXPECT_TRUE(server.is_through(before));
  EXPECT_EQ(server.find({role::worker, 1}), sessions[1]);
  EXPECT_THAT(refusal_to(say_bulk(100)), StartsWith("session: expected a session that waits"))
      << "of the older one";
}

TEST_F(ServerEndTest, RefusesASecondBulkConnectionOfOneSession) {
  welcome_to(say({}));
  welcome_to(say_bulk(100));
  EXPECT_THAT(refusal_to(say_bulk(100)), StartsWith("session: "));
  EXPECT_THAT(refusal_to(say_bulk(0)), StartsWith("session: "));
}

TEST_F(ServerEndTest, RefusesWhatIsNoHello) {
  EXPECT_THAT(refusal_to(say_bytes(as_bytes("GET / HTTP/1.1\r\n"))),
              StartsWith("hello: expected a hello, found frame: expected 'mgnf', found 'GET '"));
  EXPECT_THAT(refusal_to(say_bytes(whole_frame({.kind = frame_kind::message}, {}))),
              HasSubstr("found a message as frame 0"));
  EXPECT_THAT(refusal_to(say_bytes(whole_frame({.kind = frame_kind::hello}, as_bytes("\x01")))),
              HasSubstr("hello: offset 1: expected 2 bytes, found 0"));
}

TEST_F(ServerEndTest, RefusesWhoSaysNothingInTime) {
  const connection_id c = say_bytes(as_bytes("m"));
  let_pass(2s - 1ns);
  EXPECT_EQ(server.deadline(), now + 1ns);
  EXPECT_FALSE(server.is_through(c));
  let_pass(1ns);
  EXPECT_EQ(refusal_to(c), "time: expected a hello within 2000 ms, found none");
}

TEST_F(ServerEndTest, TakesSoManyConnectionsAndNoMore) {
  for (int i = 0; i < 20; ++i) open();
  EXPECT_EQ(refusal_to(open()), "connections: expected at most 20, found one more");
  EXPECT_THAT(refusals, SizeIs(1));
  server.closed({1}, "", now);
  server.closed({21}, "", now);
  EXPECT_EQ(server.next(open(), now), std::nullopt);
}

TEST_F(ServerEndTest, LetsTheStrangerGoThatHasWaitedLongest) {
  say({});
  for (int i = 0; i < 18; ++i) open();
  EXPECT_EQ(server.give_way(), std::nullopt) << "there is room for one";
  open();
  EXPECT_EQ(server.give_way(), connection_id{2}) << "the first one is known";
  EXPECT_EQ(refusal_to({2}), "connections: expected at most 20, found one more");
  EXPECT_EQ(server.give_way(), connection_id{3});
}

TEST_F(ServerEndTest, LetsNobodyGoWhoIsKnown) {
  for (int i = 0; i < 2; ++i) {
    say({});
    say_bulk(100 + static_cast<std::uint64_t>(i));
  }
  for (int i = 0; i < 16; ++i) open();
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(server.give_way());
  EXPECT_EQ(server.give_way(), std::nullopt);
}

TEST_F(ServerEndTest, TakesWhatFollowsAHelloAtOnce) {
  welcome_to(say({}));
  bytes all = whole_frame({.kind = frame_kind::hello},
                          encode(to_features({.connection = plane::bulk, .session = 100})));
  bytes heartbeat;
  frame_writer{heartbeat}.u64(1).text("");
  const bytes next =
      whole_frame({.kind = frame_kind::heartbeat, .run = 7, .session = 100, .sequence = 1}, heartbeat);
  all.insert(all.end(), next.begin(), next.end());
  say_bytes(all);
  EXPECT_EQ(layers[0]->joins, 1);
  EXPECT_THAT(layers[0]->told, ElementsAre(progress{1, ""})) << "heartbeats say how far a peer has come";
}

TEST_F(ServerEndTest, LeavesAllAtItsEnd) {
  welcome_to(say({}));
  welcome_to(say({}));
  server.leave_all("the run is over", now);
  for (const auto& l : layers) EXPECT_THAT(l->ends, ElementsAre(ending{end_reason::left, "the run is over"}));
  server.tick(now);
  EXPECT_EQ(server.find({role::worker, 0}), nullptr);
}

TEST(Fence, KnowsTheHighestIncarnationOfEachMember) {
  fence f;
  const member a{role::worker, 0}, b{role::shard, 0};
  EXPECT_EQ(std::get<std::uint32_t>(f.admit(a, 0)), 1U);
  EXPECT_EQ(std::get<std::uint32_t>(f.admit(a, 7)), 7U);
  EXPECT_EQ(std::get<std::uint32_t>(f.admit(b, 0)), 1U);
  EXPECT_TRUE(f.is_current(a, 7));
  EXPECT_FALSE(f.is_current(a, 1));
  EXPECT_EQ(std::get<refusal>(f.admit(a, 7)).words(),
            "incarnation: expected 8 or later of worker 0, found 7");
  EXPECT_EQ(std::get<std::uint32_t>(f.admit(a, 7 + fence::most_missed)), 7 + fence::most_missed);
  EXPECT_EQ(std::get<refusal>(f.admit(a, 8 + 2 * fence::most_missed)).words(),
            "incarnation: expected at most 20007 of worker 0, found 20008");
  EXPECT_FALSE(f.is_current({role::worker, 1}, 0));
}

} // namespace
} // namespace mailgrad::net
