#include <mailgrad/net/session.hpp>

#include <mailgrad/tests/net/joined_sessions.hpp>
#include <mailgrad/tests/net/played_memory.hpp>

#include <gmock/gmock.h>

#include <map>
#include <memory>

namespace mailgrad::net {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

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

struct SessionLoans : joined_sessions<keeping_layers> {
  std::shared_ptr<played_memory> memory = std::make_shared<played_memory>();
  std::shared_ptr<const bytes> body = std::make_shared<const bytes>(bytes_of("gradient"));

  void SetUp() override {
    client.share(memory);
    server.share(memory);
    join();
  }
  bool give() { return client.send_body(bytes_of("tag"), *body, body); }
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
  ASSERT_TRUE(give());
  ASSERT_TRUE(give());
  carry(client, server, plane::bulk);
  server.give_back(1);
  carry(server, client, plane::bulk);
  EXPECT_EQ(body.use_count(), 2);
  server.give_back(0);
  carry(server, client, plane::bulk);
  EXPECT_EQ(body.use_count(), 1);
}

TEST_F(SessionLoans, AreCopiedByLayersThatKeepNothing) {
  above_server.keeps = false;
  ASSERT_TRUE(give());
  carry(client, server, plane::bulk);
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
  ASSERT_TRUE(give());
  carry(client, server, plane::bulk);
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
  ASSERT_TRUE(give());
  carry(client, server, plane::bulk);
  server.give_back(0);
  server.give_back(0);
  carry(server, client, plane::bulk);
  ASSERT_EQ(above_client.ends.size(), 1U);
  EXPECT_THAT(above_client.ends[0].words,
              HasSubstr("returned: expected a body that is lent, found number 0"));
}

TEST_F(SessionLoans, AreRefusedWithoutMemoryInCommon) {
  server.share(nullptr);
  ASSERT_TRUE(give());
  carry(client, server, plane::bulk);
  ASSERT_EQ(above_server.ends.size(), 1U);
  EXPECT_THAT(above_server.ends[0].words, HasSubstr("lent: expected bodies in pieces"));
}

TEST_F(SessionLoans, TakeNoMoreCreditThanThereIs) {
  const auto lent_frame = [&](std::uint64_t sequence, std::uint64_t size) {
    bytes payload;
    frame_writer{payload}.u64(reinterpret_cast<std::uintptr_t>(body->data())).u64(size).u64(0).u64(size);
    return whole_frame(
        {.kind = frame_kind::lent, .run = terms.run, .session = terms.session, .sequence = sequence},
        payload);
  };
  for (std::uint64_t i = 0; i < 3; ++i) server.receive(plane::bulk, lent_frame(2 + i, 8), now);
  ASSERT_EQ(above_server.ends.size(), 1U);
  EXPECT_EQ(above_server.ends[0].reason, end_reason::no_credit);
  EXPECT_EQ(above_server.lent.size(), 2U);
}

TEST_F(SessionLoans, AreNoLargerThanTheWelcomeAllows) {
  bytes payload;
  frame_writer{payload}.u64(0).u64(1).u64(0).u64((1 << 20) + 1);
  server.receive(
      plane::bulk,
      whole_frame({.kind = frame_kind::lent, .run = terms.run, .session = terms.session, .sequence = 2},
                  payload),
      now);
  ASSERT_EQ(above_server.ends.size(), 1U);
  EXPECT_THAT(above_server.ends[0].words, HasSubstr("lent: expected at most 1048576 bytes, found 1048577"));
}

} // namespace
} // namespace mailgrad::net
