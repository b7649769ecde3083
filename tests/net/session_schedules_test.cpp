#include <mailgrad/tests/net/simulated_run.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

// Sessions over a network that fails as a seed says. MAILGRAD_NET_SCHEDULES is how many seeds each of the
// tests tries, and MAILGRAD_NET_SEED the first of them; else it is a slice of those that a test names.

namespace mailgrad::net {
namespace {

/// AddressSanitizer takes ten times as long. It looks for other faults, which a part of the schedules finds.
#ifdef __SANITIZE_ADDRESS__
constexpr std::uint64_t part = 6;
#else
constexpr std::uint64_t part = 1;
#endif

/// Plays seeds and says of the first that breaks a promise how to repeat it.
std::map<end_reason, int> play_all(const fault_plan& plan, std::uint64_t usual_count) {
  std::map<end_reason, int> reasons;
  const auto seeds =
      mailgrad::testing::slice_or("MAILGRAD_NET_SCHEDULES", "MAILGRAD_NET_SEED", usual_count / part);
  std::uint64_t messages = 0, bodies = 0, duplicates = 0;
  for (const std::uint64_t seed : seeds) {
    simulated_run run{seed, plan};
    const run_notes& notes = run.play();
    EXPECT_THAT(notes.faults, testing::IsEmpty())
        << "repeat by MAILGRAD_NET_SEED=" << seed << " MAILGRAD_NET_SCHEDULES=1";
    if (!notes.faults.empty()) break;
    for (const auto& [why, times] : run.reasons()) reasons[why] += times;
    for (const auto& [number, b] : notes.books)
      for (const auto& w : b.ways) messages += w.messages_came, bodies += w.bodies_came;
    duplicates += notes.duplicates;
  }
  std::cout << seeds.size() << " schedules, " << messages << " messages, " << bodies << " bodies, "
            << duplicates << " duplicates";
  for (const auto& [why, times] : reasons) std::cout << ", " << times << " " << to_string(why);
  std::cout << "\n";
  return reasons;
}

TEST(SessionSchedules, InGoodWeatherEndBecauseSomebodyLeaves) {
  const auto reasons = play_all({}, 150);
  EXPECT_EQ(reasons.size(), 1U);
}

TEST(SessionSchedules, OutliveSlowReaders) { play_all({.slow = true}, 150); }

TEST(SessionSchedules, KeepTheirPromisesWhenPeersDieFreezeAndComeBack) {
  const auto reasons = play_all({.cuts = true, .slow = true}, 1200);
  for (const end_reason r : {end_reason::left, end_reason::silent, end_reason::lost, end_reason::superseded})
    EXPECT_GT(reasons.count(r), 0U) << "no schedule ended a session as " << to_string(r);
}

TEST(SessionSchedules, KeepTheirPromisesWhenFramesAreLostAndSentAgain) {
  play_all({.cuts = true, .losses = true, .slow = true}, 600);
}

TEST(SessionSchedules, KeepTheirPromisesOnANetworkThatBreaksItsOwn) {
  const auto reasons = play_all({.cuts = true, .losses = true, .broken = true}, 600);
  for (const end_reason r : {end_reason::malformed, end_reason::out_of_order})
    EXPECT_GT(reasons.count(r), 0U) << "no schedule ended a session as " << to_string(r);
}

TEST(SessionSchedules, OfOneSeedAreTheSame) {
  const fault_plan plan{.cuts = true, .losses = true, .broken = true, .slow = true};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    simulated_run one{seed, plan}, again{seed, plan}, other{seed + 100, plan};
    one.play();
    again.play();
    other.play();
    EXPECT_EQ(one.trace(), again.trace());
    EXPECT_NE(one.trace(), other.trace());
  }
}

} // namespace
} // namespace mailgrad::net
