#include <mailgrad/cli/output/memory_advice.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;

TEST(MemoryAdvice, IsGivenIfMemoryOfACardOrPinnedMemoryIsLacking) {
  for (const char* where : {"worker 0 at its step 1: cuda:0", "pinned memory of the host"})
    EXPECT_THAT(std::string(memory_advice(std::string(where) + ": out of memory: 4.0 GiB asked for")),
                HasSubstr("smaller --batch"));
}

TEST(MemoryAdvice, IsNotGivenForAnotherReason) {
  EXPECT_EQ(memory_advice("worker 0 at its step 1: cudaEventQuery: the card is lost"), "");
  EXPECT_EQ(memory_advice(""), "");
}

} // namespace
} // namespace mailgrad
