#include <mailgrad/engine/shard/card_block.hpp>

#include <gtest/gtest.h>

#include <cstring>

namespace mailgrad {
namespace {

TEST(GrowingRoom, IsTheSameUntilItIsOutgrown) {
  growing_room room(std::make_shared<host_lane>());
  void* const first = room.of(100);
  EXPECT_EQ(room.of(100), first);
  EXPECT_EQ(room.of(128), first) << "it grows in powers of two";
  EXPECT_EQ(room.of(0), first);
  EXPECT_NE(room.of(129), first);
}

TEST(GrowingRoom, KeepsWhatWorkThatIsQueuedMayStillUse) {
  growing_room room(std::make_shared<host_lane>());
  void* const first = room.of(64);
  std::memset(room.of(4096), 2, 4096);
  std::memset(first, 1, 64); // as a kernel that runs late
  EXPECT_EQ(static_cast<const char*>(room.of(4096))[0], 2);
}

} // namespace
} // namespace mailgrad
