#include <mailgrad/files/digests.hpp>

#include <gtest/gtest.h>

#include <string>

namespace mailgrad {
namespace {

TEST(Crc32c, IsThatOfTheExamplesInItsSource) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  EXPECT_EQ(crc32c(rising), 0x46DD794EU);
  EXPECT_EQ(crc32c(std::string(rising.rbegin(), rising.rend())), 0x113FDB5CU);
}

TEST(Crc32c, HasTheCheckValueOfTheCatalogues) { EXPECT_EQ(crc32c("123456789"), 0xE3069283U); }

TEST(Crc32c, OfNothingIsZero) { EXPECT_EQ(crc32c(""), 0U); }

} // namespace
} // namespace mailgrad
