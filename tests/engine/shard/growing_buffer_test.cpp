#include <mailgrad/engine/shard/gpu_block.hpp>

#include <gtest/gtest.h>

#include <cstring>

namespace mailgrad {
namespace {

TEST(GrowingBuffer, IsTheSameUntilItIsOutgrown) {
  growing_buffer buffer(std::make_shared<host_queue>());
  void* const first = buffer.of(100);
  EXPECT_EQ(buffer.of(100), first);
  EXPECT_EQ(buffer.of(128), first) << "it grows in powers of two";
  EXPECT_EQ(buffer.of(0), first);
  EXPECT_NE(buffer.of(129), first);
}

TEST(GrowingBuffer, KeepsWhatWorkThatIsQueuedMayStillUse) {
  growing_buffer buffer(std::make_shared<host_queue>());
  void* const first = buffer.of(64);
  std::memset(buffer.of(4096), 2, 4096);
  std::memset(first, 1, 64); // as a kernel that runs late
  EXPECT_EQ(static_cast<const char*>(buffer.of(4096))[0], 2);
}

} // namespace
} // namespace mailgrad
