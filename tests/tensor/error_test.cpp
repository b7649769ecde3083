#include <mailgrad/tensor/error.hpp>

#include <gtest/gtest.h>

#include <system_error>

namespace mailgrad {
namespace {

TEST(WorldCategory, HasWordsForEachCode) {
  EXPECT_STREQ(world_category().name(), "mailgrad");
  EXPECT_EQ(make_error_code(world_errc::no_such_device).message(), "no such device");
  EXPECT_EQ(make_error_code(world_errc::device_failure).message(), "device failure");
  EXPECT_EQ(make_error_code(world_errc::malformed_file).message(), "malformed file");
  EXPECT_EQ(make_error_code(world_errc::malformed_message).message(), "malformed message");
  EXPECT_EQ(make_error_code(world_errc::out_of_memory).message(), "out of memory");
  EXPECT_EQ(make_error_code(world_errc::wrong_place).message(), "wrong place");
}

TEST(WorldCategory, NamesACodeItDoesNotKnow) { EXPECT_EQ(world_category().message(99), "unknown error 99"); }

TEST(DeviceError, SaysItsLineAndNothingElse) {
  const device_error e(world_errc::device_failure, "cuda:0: out of memory");
  EXPECT_STREQ(e.what(), "cuda:0: out of memory");
  EXPECT_EQ(e.code(), world_errc::device_failure);
}

TEST(OutOfMemory, SaysOnceWhatItWasFor) {
  const auto lacking = []() -> int { throw out_of_memory("cuda:0: out of memory: 4 GiB asked for"); };
  try {
    naming_memory("a worker", [&] { return naming_memory([] { return "the values of a step"; }, lacking); });
    FAIL();
  } catch (const device_error& e) {
    EXPECT_STREQ(e.what(), "cuda:0: out of memory: 4 GiB asked for, for the values of a step");
    EXPECT_EQ(e.code(), world_errc::out_of_memory);
  }
}

TEST(OutOfMemory, NamesNoOtherError) {
  const auto lost = []() -> int { throw device_error(world_errc::device_failure, "lost"); };
  try {
    naming_memory("a worker", lost);
    FAIL();
  } catch (const device_error& e) {
    EXPECT_STREQ(e.what(), "lost");
  }
}

TEST(DeviceError, IsCaughtAsASystemError) {
  EXPECT_THROW(throw device_error(world_errc::no_such_device, "cuda:0"), std::system_error);
}

} // namespace
} // namespace mailgrad
