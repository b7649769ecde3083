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
  for (const char* text : {"gpu:0", "CUDA:0", "HOST", "", ":"})
    EXPECT_EQ(refusal([text] { parse_device(text); }),
              "device '" + std::string(text) + "': expected cpu:N or cuda:N");
}

TEST(Device, WithoutAProperIndexOrLaneIsRefusedWithOneThatIs) {
  const auto says = [](const char* text, const std::string& why) {
    EXPECT_EQ(refusal([text] { parse_device(text); }), "device '" + std::string(text) + "': " + why);
  };
  const std::string core = "; write cpu:0, or cpu:1 for the second core";
  const std::string card = "; write cuda:0", lane_of_card = "; write cuda:0/1 for the second lane of cuda:0";
  says("cpu:", "'' is not an index" + core);
  for (const std::string index : {"x", "1x", "-1", " 1", "1:2", "99999999999x"}) {
    says(("cpu:" + index).c_str(), "'" + index + "' is not an index" + core);
    says(("cuda:" + index).c_str(), "'" + index + "' is not an index" + card);
  }
  says("cuda:/1", "'' is not an index" + card);
  for (const std::string lane : {"", "x", "-1", "1/2"})
    says(("cuda:0/" + lane).c_str(), "'" + lane + "' is not a lane" + lane_of_card);
}

TEST(Device, WhoseNumberIsTooLargeIsRefusedAsThat) {
  EXPECT_THAT(refusal([] { parse_device("cuda:4294967296"); }),
              HasSubstr("'4294967296' is too large for an index; write cuda:0"));
  EXPECT_THAT(refusal([] { parse_device("cuda:0/99999999999"); }), HasSubstr("is too large for a lane"));
  EXPECT_EQ(parse_device("cuda:4294967295").index, 4294967295U);
}

TEST(Device, IsNoLaneOfACoreAndNoListOfDevices) {
  EXPECT_EQ(refusal([] { parse_device("cpu:1/2"); }), "device 'cpu:1/2': a core has no lanes; write cpu:1");
  EXPECT_EQ(refusal([] { parse_device("cuda:0,cuda:1"); }),
            "device 'cuda:0,cuda:1': these are several, and one is taken here");
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
