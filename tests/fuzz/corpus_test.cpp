#include <mailgrad/tests/fuzz/targets.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

// Every input that a fuzzer has found, or begins with, in every build.

namespace mailgrad::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<char> bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class Corpus : public ::testing::TestWithParam<std::size_t> {
protected:
  const target& target_ = targets[GetParam()];
  const fs::path folder_ = fs::path(MAILGRAD_FUZZ_CORPUS) / target_.name;
};

TEST_P(Corpus, IsTakenOrRefusedInGoodOrder) {
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    SCOPED_TRACE(entry.path().string());
    const std::vector<char> bytes = bytes_of(entry.path());
    EXPECT_NO_THROW(target_.run(std::as_bytes(std::span(bytes))));
    ++files;
  }
  EXPECT_GT(files, 0U) << "no inputs in " << folder_;
}

TEST_P(Corpus, IsRefusedInGoodOrderWhereverItIsCutOrChanged) {
  for (const auto& entry : fs::directory_iterator(folder_)) {
    SCOPED_TRACE(entry.path().string());
    std::vector<char> bytes = bytes_of(entry.path());
    const std::size_t apart = bytes.size() / 64 + 1; // some 64 places of each
    for (const std::uint64_t place : testing::spread_slice_of((bytes.size() + apart - 1) / apart)) {
      const std::size_t at = place * apart;
      EXPECT_NO_THROW(target_.run(std::as_bytes(std::span(bytes).first(at))));
      bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
      EXPECT_NO_THROW(target_.run(std::as_bytes(std::span(bytes))));
      bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Corpus, ::testing::Range<std::size_t>(0, std::size(targets)),
                         [](const auto& of) { return std::string(targets[of.param].name); });

} // namespace
} // namespace mailgrad::fuzz
