#include <mailgrad/engine/account/trace_track.hpp>

#include <gtest/gtest.h>

#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;

TEST(DeviceClock, TakesTheQuickestNewsForTheDistance) {
  device_clock c;
  c.see(100us, 1130us); // 30 us late
  EXPECT_EQ(c.here(100us), 1130us);
  c.see(200us, 1205us); // 5 us late
  EXPECT_EQ(c.here(200us), 1205us);
  c.see(300us, 1390us);
  EXPECT_NEAR(static_cast<double>(c.here(300us).count()), 1'305'000, 20);
  EXPECT_NEAR(static_cast<double>((c.here(300us) - c.here(250us)).count()), 50'000, 0) << "what it measured";
}

/// The device's clock is slow by 20 us a second, and the news are quick.
TEST(DeviceClock, FollowsADrift) {
  device_clock c;
  for (std::int64_t s = 0; s < 100; ++s) {
    const instant here = std::chrono::seconds{s}, there = here - std::chrono::microseconds{20 * s};
    c.see(there, here + 1us);
    EXPECT_LE(c.here(there), here + 1us);
    EXPECT_GE(c.here(there), here - 1us) << s;
  }
}

} // namespace
} // namespace mailgrad
