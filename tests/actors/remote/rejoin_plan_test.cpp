#include <mailgrad/actors/remote/client_side.hpp>

#include <gtest/gtest.h>

namespace mailgrad::remote {
namespace {

using namespace std::chrono_literals;
using net::end_reason, net::refusal_code;

constexpr net::instant at{100s};

net::welcome as(std::uint32_t number, std::uint32_t incarnation) {
  net::welcome w;
  w.run = 0xabc;
  w.you = {net::role::worker, number};
  w.incarnation = incarnation;
  return w;
}

net::ending refused(refusal_code why) { return {end_reason::refused, "no", why}; }

rejoin_plan cut_off_plan(std::chrono::milliseconds patience) {
  rejoin_plan plan(patience);
  plan.is_in(as(2, 3), at);
  EXPECT_TRUE(plan.is_cut_off({end_reason::silent, ""}, at + 10s));
  return plan;
}

TEST(RejoinPlan, ComesBackFromWhatHappensToConnectionsAlone) {
  rejoin_plan plan(1s);
  plan.is_in(as(2, 3), at);
  for (const end_reason r : {end_reason::silent, end_reason::lost, end_reason::superseded, end_reason::late})
    EXPECT_TRUE(plan.is_cut_off({r, ""}, at)) << to_string(r);
  for (const end_reason r : {end_reason::left, end_reason::malformed, end_reason::out_of_order,
                             end_reason::no_credit, end_reason::refused, end_reason::absent})
    EXPECT_FALSE(plan.is_cut_off({r, ""}, at)) << to_string(r);
}

TEST(RejoinPlan, StaysOutWithoutPatience) {
  rejoin_plan plan(0s);
  plan.is_in(as(2, 3), at);
  EXPECT_FALSE(plan.is_cut_off({end_reason::lost, ""}, at));
}

TEST(RejoinPlan, AsksForTheNextIncarnationOfItselfInTheSameRun) {
  const net::hello says = cut_off_plan(60s).says();
  EXPECT_EQ(says.part, net::role::worker);
  EXPECT_EQ(says.number, 2U);
  EXPECT_EQ(says.incarnation, 4U);
  EXPECT_EQ(says.says.at("run"), net::key_text(0xabc));
}

TEST(RejoinPlan, TakesAnyNumberWhenAnotherWorkerHasItsOwn) {
  rejoin_plan plan = cut_off_plan(60s);
  EXPECT_TRUE(plan.tries_again_after(refused(refusal_code::incarnation), at + 10s));
  EXPECT_FALSE(plan.says().number);
  EXPECT_EQ(plan.says().incarnation, 0U);
  EXPECT_EQ(plan.says().says.at("run"), net::key_text(0xabc));
  EXPECT_TRUE(plan.tries_again_after(refused(refusal_code::number), at + 10s));
  plan.is_in(as(1, 7), at + 11s);
  EXPECT_EQ(plan.says().number, 1U);
  EXPECT_EQ(plan.says().incarnation, 8U);
}

TEST(RejoinPlan, TriesAtOnceAndThenAfterGrowingPauses) {
  rejoin_plan plan = cut_off_plan(60s);
  EXPECT_EQ(plan.pause(), 0ms);
  for (const auto pause : {50ms, 100ms, 200ms, 400ms, 500ms, 500ms}) {
    EXPECT_TRUE(plan.tries_again_after({end_reason::lost, ""}, at + 10s));
    EXPECT_EQ(plan.pause(), pause);
  }
}

TEST(RejoinPlan, ForgetsPausesOnlyAfterATimeInTheRun) {
  rejoin_plan plan = cut_off_plan(60s);
  EXPECT_TRUE(plan.tries_again_after({end_reason::lost, ""}, at + 10s));
  plan.is_in(as(2, 4), at + 11s);
  EXPECT_TRUE(plan.is_cut_off({end_reason::lost, ""}, at + 11s + 400ms));
  EXPECT_EQ(plan.pause(), 50ms) << "else a worker that is cut off again at once would never pause";
  plan.is_in(as(2, 5), at + 13s);
  EXPECT_TRUE(plan.is_cut_off({end_reason::lost, ""}, at + 16s));
  EXPECT_EQ(plan.pause(), 0ms);
}

TEST(RejoinPlan, GivesUpWhenItsPatienceEnds) {
  rejoin_plan plan = cut_off_plan(5s);
  EXPECT_TRUE(plan.tries_again_after({end_reason::lost, ""}, at + 14s));
  EXPECT_FALSE(plan.tries_again_after({end_reason::lost, ""}, at + 15s));
  EXPECT_TRUE(plan.is_cut_off({end_reason::lost, ""}, at + 30s));
  EXPECT_TRUE(plan.tries_again_after({end_reason::lost, ""}, at + 31s)) << "each time it has all of it";
}

TEST(RejoinPlan, GivesUpWhereNoTryCanSucceed) {
  rejoin_plan plan = cut_off_plan(60s);
  EXPECT_FALSE(plan.tries_again_after({end_reason::absent, ""}, at + 10s));
  EXPECT_FALSE(plan.tries_again_after({end_reason::left, ""}, at + 10s)) << "the run has just ended";
  for (const refusal_code c : {refusal_code::run, refusal_code::protocol, refusal_code::keys,
                               refusal_code::model, refusal_code::role, refusal_code::malformed})
    EXPECT_FALSE(plan.tries_again_after(refused(c), at + 10s)) << to_string(c);
  for (const refusal_code c : {refusal_code::number, refusal_code::full, refusal_code::late,
                               refusal_code::session, refusal_code::incarnation})
    EXPECT_TRUE(plan.tries_again_after(refused(c), at + 10s)) << to_string(c);
}

} // namespace
} // namespace mailgrad::remote
