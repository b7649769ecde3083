#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>

#include <new>

namespace mailgrad {
namespace {

using testing::Each;

bool is_aligned(const std::byte* memory, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(memory) % to == 0;
}

TEST(Block, WithoutBytesOwnsNothing) {
  EXPECT_EQ(block().data(), nullptr);
  EXPECT_EQ(block(0).data(), nullptr);
  EXPECT_TRUE(block(0).as<float>().empty());
}

TEST(Block, BeginsAtACacheLineAndAtZero) {
  for (const std::size_t bytes : {1U, 63U, 64U, 4100U}) {
    const block b(bytes);
    EXPECT_EQ(b.bytes(), bytes);
    EXPECT_TRUE(is_aligned(b.data(), block::alignment)) << bytes << " bytes";
    EXPECT_THAT(b.as<std::uint8_t>(), Each(0));
  }
}

TEST(Block, ThatIsOverwrittenHasRoomAndAZeroedRest) {
  const block b = block::for_overwrite(70);
  EXPECT_EQ(b.bytes(), 70U);
  EXPECT_TRUE(is_aligned(b.data(), block::alignment));
  for (std::size_t i = 70; i < 128; ++i) EXPECT_EQ(b.data()[i], std::byte{0}) << i;
  EXPECT_EQ(block::for_overwrite(0).data(), nullptr);
}

TEST(Block, OfManyMegabytesBeginsAtAHugePage) {
  const block b((std::size_t{5} << 20) + 3);
  EXPECT_TRUE(is_aligned(b.data(), std::size_t{2} << 20));
  EXPECT_THAT(b.as<std::uint8_t>(), Each(0));
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
  const auto is_refused = testing::ThrowsMessage<std::bad_alloc>("out of memory: 16777216.0 TiB asked for");
  for (const std::size_t less : {0U, 1U})
    EXPECT_THAT([&] { block b(std::numeric_limits<std::size_t>::max() - less); }, is_refused);
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
}

} // namespace
} // namespace mailgrad
