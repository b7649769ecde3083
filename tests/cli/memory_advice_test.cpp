#include <mailgrad/cli/output/failure_line.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mailgrad {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr device host, gpu{device_kind::cuda, 0}, second_stream{device_kind::cuda, 0, 1},
    second_gpu{device_kind::cuda, 1};
const std::string lacking = "worker 0 at its step 1: cuda:0: out of memory: 4.0 GiB asked for";

TEST(MemoryAdvice, IsGivenIfMemoryOfAGpuOrPinnedMemoryIsLacking) {
  for (const char* where : {"worker 0 at its step 1: cuda:0", "pinned memory of the host"})
    EXPECT_THAT(memory_advice(std::string(where) + ": out of memory: 4.0 GiB asked for", {}),
                HasSubstr("smaller --batch"));
}

TEST(MemoryAdvice, IsNotGivenForAnotherReason) {
  EXPECT_EQ(memory_advice("worker 0 at its step 1: cudaEventQuery: the GPU is lost", {}), "");
  EXPECT_EQ(memory_advice("", {}), "");
}

TEST(MemoryAdvice, HasNoOptionsForAReplayWhichTakesNone) {
  memory_needs again{{gpu, second_stream}, {gpu}, 2, "float32", true};
  EXPECT_THAT(memory_advice(lacking, again), Not(HasSubstr("--")));
}

TEST(MemoryAdvice, NamesNothingOfWhichTheRunHasTheLeast) {
  EXPECT_EQ(memory_advice(lacking, {{gpu}, {}, 1, "bfloat16"}),
            "to need less memory, take a smaller --batch or model");
  EXPECT_EQ(memory_advice(lacking, {{gpu, second_gpu}, {}, 4, "float32"}),
            "to need less memory, take a smaller --batch or model, or --precision bfloat16");
  EXPECT_EQ(memory_advice(lacking, {{gpu, host, host}, {host}, 4, "float32"}),
            "to need less memory, take a smaller --batch or model")
      << "a core computes in float32 alone, and shards on the host take no memory of a GPU";
}

TEST(MemoryAdvice, NamesStreamsShardsAndThePlaceOfTheWeights) {
  const std::string all = memory_advice(lacking, {{gpu, second_stream}, {gpu}, 2, "tf32"});
  EXPECT_EQ(all, "to need less memory, take a smaller --batch or model, fewer streams in --devices, fewer "
                 "--shards, --precision bfloat16, or --parameters host");
  EXPECT_THAT(memory_advice(lacking, {{gpu}, {host, gpu}, 1, "float32"}),
              EndsWith("model, --precision bfloat16, or --parameters host"));
  EXPECT_THAT(memory_advice(lacking, {{host}, {gpu}, 1, "float32"}), EndsWith("model, or --parameters host"));
}

TEST(MemoryAdvice, NamesStreamsThatWorkersOfOtherProcessesMayHave) {
  EXPECT_THAT(memory_advice(lacking, {{}, {}, 2, "float32"}),
              EndsWith("model, fewer streams in --devices, or --precision bfloat16"));
}

} // namespace
} // namespace mailgrad
