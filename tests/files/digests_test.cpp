#include <mailgrad/files/digests.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gtest/gtest.h>

#include <system_error>

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

std::string hash_of(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

// Source  NIST, "Examples with Intermediate Values", FIPS 180-4, SHA-256.
TEST(Sha256, IsThatOfThePublishedExamples) {
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, IsThatOfAFileInPieces) {
  const scratch_folder folder;
  std::string bytes(3'000'001, 'a');
  for (std::size_t i = 0; i < bytes.size(); i += 1000) bytes[i] = static_cast<char>(i / 1000);
  EXPECT_EQ(sha256_of(folder.write("large", bytes)), hash_of(bytes));
  EXPECT_EQ(sha256_of(folder.write("empty", "")), hash_of(""));
  EXPECT_THROW(sha256_of(folder.path() / "nowhere"), std::system_error);
  EXPECT_THROW(sha256_of(folder.path()), std::system_error);
}

} // namespace
} // namespace mailgrad
