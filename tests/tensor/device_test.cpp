#include <mailgrad/tensor/device.hpp>

#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// What `call` says when it refuses a device; empty if it does not.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const device_error& e) {
    EXPECT_EQ(e.code(), world_errc::no_such_device);
    return e.what();
  }
  return {};
}

TEST(Device, IsWrittenAsItIsRead) {
  for (const device d : {device{device_kind::cpu, 0}, device{device_kind::cpu, 12},
                         device{device_kind::cuda, 3}, device{device_kind::cuda, 3, 2}})
    EXPECT_EQ(parse_device(to_string(d)), d);
  EXPECT_EQ(to_string(device{device_kind::cuda, 3}), "cuda:3");
  EXPECT_EQ(to_string(device{device_kind::cuda, 3, 2}), "cuda:3/2");
}

TEST(Device, WithoutAnIndexIsTheFirst) {
  EXPECT_EQ(parse_device("cpu"), (device{device_kind::cpu, 0}));
  EXPECT_EQ(parse_device("cuda"), (device{device_kind::cuda, 0}));
}

TEST(Device, OfUnknownKindIsRefusedWithTheKindsThereAre) {
  const std::string why = refusal([] { parse_device("gpu:0"); });
  EXPECT_THAT(why, StartsWith("device 'gpu:0'"));
  EXPECT_THAT(why, HasSubstr("expected cpu:N or cuda:N"));
  EXPECT_THAT(why, HasSubstr("cpu:0"));
  EXPECT_THAT(why, Not(HasSubstr("\n")));
}

TEST(Device, WithoutAProperIndexOrLaneIsRefused) {
  for (const char* text :
       {"cpu:", "cpu:x", "cpu:1x", "cpu:-1", "cpu: 1", "cpu:1:2", "cpu:0/1", "cpu:99999999999", "cuda:/1"})
    EXPECT_THAT(refusal([text] { parse_device(text); }), HasSubstr("is not an index")) << text;
  for (const char* text : {"cuda:0/", "cuda:0/x", "cuda:0/-1", "cuda:0/1/2"})
    EXPECT_THAT(refusal([text] { parse_device(text); }), HasSubstr("is not a lane")) << text;
  EXPECT_THAT(refusal([] { parse_device(""); }), HasSubstr("device ''"));
}

TEST(Device, OfThisMachineIsAvailable) {
  const auto all = available_devices();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front(), (device{device_kind::cpu, 0}));
  for (const device d : all) EXPECT_NO_THROW(require_available(d)) << to_string(d);
}

TEST(Device, ThatIsMissingIsRefusedWithAListOfWhatThereIs) {
  const device missing{device_kind::cuda, 4096};
  const std::string why = refusal([missing] { require_available(missing); });
  EXPECT_THAT(why, StartsWith("device cuda:4096 is not available; this machine has cpu:0"));
  EXPECT_THAT(why, Not(HasSubstr("\n")));
}

} // namespace
} // namespace mailgrad
