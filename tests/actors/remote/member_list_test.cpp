#include <mailgrad/actors/remote/member_handlers.hpp>

#include <gmock/gmock.h>

#include <optional>
#include <string>

namespace mailgrad::remote {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::SizeIs;
using state = run_member::state;

constexpr net::member second{net::role::worker, 1};

net::welcome terms(std::uint32_t incarnation) { return {.you = second, .incarnation = incarnation}; }

/// All were heard at 9 s.
std::optional<net::instant> heard(const net::member&) { return 9s; }

TEST(MemberList, KnowsWhoIsIn) {
  member_list list;
  list.joined(terms(1), "10.0.0.3:51234", {"cpu:0", "cpu:1"}, 4s);
  const auto all = list.told(10s, heard);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].role, "worker");
  EXPECT_EQ(all[0].number, 1U);
  EXPECT_EQ(all[0].is, state::joined);
  EXPECT_EQ(all[0].since, 6.0);
  EXPECT_EQ(all[0].heard, 1.0);
  EXPECT_EQ(all[0].address, "10.0.0.3:51234");
  EXPECT_THAT(all[0].devices, ElementsAre("cpu:0", "cpu:1"));
}

TEST(MemberList, TellsWhoLeftFromWhoWasLost) {
  for (const auto& [reason, is] :
       {std::pair{net::end_reason::left, state::left}, std::pair{net::end_reason::silent, state::lost},
        std::pair{net::end_reason::run_failed, state::done}}) {
    member_list list;
    list.joined(terms(1), "here", {}, 1s);
    list.ended(terms(1), {reason, "words"}, 3s, 5s);
    const auto all = list.told(10s, heard);
    ASSERT_THAT(all, SizeIs(1));
    EXPECT_EQ(all[0].is, is);
    EXPECT_EQ(all[0].since, 5.0);
    EXPECT_EQ(all[0].heard, 7.0) << "of its own last byte";
    EXPECT_EQ(all[0].why, is == state::done ? "" : "words");
  }
}

/// The server may end the session of an earlier incarnation when a later one has joined.
TEST(MemberList, KeepsTheLastIncarnation) {
  member_list list;
  list.joined(terms(1), "there", {}, 1s);
  list.joined(terms(2), "here", {}, 2s);
  list.ended(terms(1), {net::end_reason::superseded, "another came"}, 1s, 3s);
  const auto all = list.told(10s, heard);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].incarnation, 2U);
  EXPECT_EQ(all[0].is, state::joined);
  EXPECT_EQ(all[0].address, "here");
  EXPECT_EQ(all[0].losses, 1U);
  EXPECT_EQ(all[0].why, "another came");
}

TEST(MemberList, RemembersWhyOneThatIsBackWasLost) {
  member_list list;
  list.joined(terms(1), "there", {}, 1s);
  EXPECT_EQ(list.told(2s, heard)[0].losses, 0U);
  list.ended(terms(1), {net::end_reason::silent, "no sign of life"}, 1s, 3s);
  EXPECT_EQ(list.told(4s, heard)[0].losses, 1U);
  list.joined(terms(2), "here", {}, 5s);
  run_member back = list.told(10s, heard)[0];
  EXPECT_EQ(back.is, state::joined);
  EXPECT_EQ(back.losses, 1U);
  EXPECT_EQ(back.since, 5.0);
  EXPECT_EQ(back.why, "no sign of life");
  list.ended(terms(2), {net::end_reason::left, "it has had enough"}, 6s, 7s);
  back = list.told(10s, heard)[0];
  EXPECT_EQ(back.is, state::left);
  EXPECT_EQ(back.losses, 1U);
  EXPECT_EQ(back.why, "it has had enough");
}

/// A later incarnation whose session was never complete.
TEST(MemberList, CountsNoLossOfOneThatWasNeverIn) {
  member_list list;
  list.joined(terms(1), "here", {}, 1s);
  list.ended(terms(2), {net::end_reason::late, "it said no more"}, 2s, 3s);
  EXPECT_EQ(list.told(4s, heard)[0].losses, 0U);
}

/// The sessions of all who are in a run end with it, and a worker that is done may go a moment before.
TEST(MemberList, TellsWhoStayedToTheEndFromWhoLeft) {
  member_list list;
  list.joined(terms(1), "here", {}, 1s);
  list.close(3s);
  list.ended(terms(1), {net::end_reason::left, "the run has ended"}, 2s, 3s);
  EXPECT_TRUE(list.is_closed());
  EXPECT_EQ(list.told(4s, heard)[0].is, state::done);
  EXPECT_EQ(list.told(4s, heard)[0].since, 1.0);
  member_list other;
  other.joined(terms(1), "here", {}, 1s);
  other.ended(terms(1), {net::end_reason::left, std::string(work_is_done)}, 2s, 3s);
  EXPECT_EQ(other.told(4s, heard)[0].is, state::done);
}

TEST(MemberList, SaysThatItIsNotKnownWhenAMemberWasHeard) {
  member_list list;
  list.joined(terms(1), "here", {}, 1s);
  EXPECT_FALSE(list.told(2s, [](const net::member&) { return std::nullopt; })[0].heard);
}

TEST(MemberList, KnowsWhichShardsAHostHolds) {
  constexpr net::member host{net::role::shard, 0};
  member_list list;
  list.joined({.you = host, .incarnation = 1}, "here", {}, 1s);
  list.holds(host, {0, 2});
  list.holds(second, {1}); // who is not there
  EXPECT_THAT(list.told(10s, heard)[0].shards, ElementsAre(0, 2));
  list.ended({.you = host, .incarnation = 1}, {net::end_reason::lost, "killed"}, 2s, 3s);
  EXPECT_THAT(list.told(10s, heard)[0].shards, ElementsAre(0, 2)) << "those that are lost with it";
}

} // namespace
} // namespace mailgrad::remote
