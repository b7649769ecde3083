#include <mailgrad/tensor/block.hpp>

#include <mailgrad/tensor/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>

namespace mailgrad {
namespace {

bool is_aligned(const std::byte* memory, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(memory) % to == 0;
}

TEST(Block, WithoutBytesOwnsNothing) {
  EXPECT_EQ(block().data(), nullptr);
  EXPECT_EQ(block(0).data(), nullptr);
  EXPECT_TRUE(block(0).as<float>().empty());
}

TEST(Block, BeginsAtACacheLineAndAtZero) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{4100}}) {
    const block b(bytes);
    EXPECT_EQ(b.bytes(), bytes);
    EXPECT_TRUE(is_aligned(b.data(), block::alignment)) << bytes << " bytes";
    EXPECT_TRUE(std::ranges::all_of(b.as<std::uint8_t>(), [](std::uint8_t x) { return x == 0; }));
  }
}

TEST(Block, ThatIsOverwrittenHasRoomAndAZeroedRest) {
  const block b = block::for_overwrite(70);
  EXPECT_EQ(b.bytes(), 70U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % block::alignment, 0U);
  for (std::size_t i = 70; i < 128; ++i) EXPECT_EQ(b.data()[i], std::byte{0}) << i;
  EXPECT_EQ(block::for_overwrite(0).data(), nullptr);
}

TEST(Block, OfManyMegabytesBeginsAtAHugePage) {
  const block b((std::size_t{5} << 20) + 3);
  EXPECT_TRUE(is_aligned(b.data(), std::size_t{2} << 20));
  EXPECT_TRUE(std::ranges::all_of(b.as<std::uint8_t>(), [](std::uint8_t x) { return x == 0; }));
}

TEST(Block, LooksAtItsBytesAsWholeElements) {
  block b(11);
  EXPECT_EQ(b.as<float>().size(), 2U);
  b.as<float>()[1] = 3.5F;
  EXPECT_EQ(std::as_const(b).as<float>()[1], 3.5F);
}

TEST(Block, KeepsItsMemoryWhenMoved) {
  block a(64);
  const std::byte* memory = a.data();
  block b = std::move(a);
  EXPECT_EQ(b.data(), memory);
  EXPECT_EQ(b.bytes(), 64U);
  block c;
  c = std::move(b);
  EXPECT_EQ(c.data(), memory);
  EXPECT_TRUE(b.as<float>().empty()) << "what was moved from must not show memory it no longer has";
}

TEST(Block, RefusesWhatCannotBeRoundedUp) {
  EXPECT_THROW(block(std::numeric_limits<std::size_t>::max() - 1), std::bad_alloc);
}

TEST(Block, RoundsUpToWholeCacheLines) {
  EXPECT_EQ(aligned(0), 0U);
  EXPECT_EQ(aligned(1), 64U);
  EXPECT_EQ(aligned(64), 64U);
  EXPECT_EQ(aligned(65), 128U);
}

TEST(Block, SaysInAFittingUnitHowMuchWasAskedFor) {
  EXPECT_STREQ(byte_count(0).text(), "0 bytes");
  EXPECT_STREQ(byte_count(1023).text(), "1023 bytes");
  EXPECT_STREQ(byte_count(1536).text(), "1.5 KiB");
  EXPECT_STREQ(byte_count(std::uint64_t{5} << 29).text(), "2.5 GiB");
  try {
    const block b(std::numeric_limits<std::size_t>::max() - 1);
    FAIL() << "there is no such memory";
  } catch (const std::bad_alloc& e) {
    EXPECT_STREQ(e.what(), "out of memory: 16777216.0 TiB asked for");
  }
}

} // namespace
} // namespace mailgrad
