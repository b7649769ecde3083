#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

namespace mailgrad {
namespace {

using testing::AllOf, testing::HasSubstr, testing::Not, testing::Optional, testing::StartsWith,
    testing::ThrowsMessage;

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
  for (const char* text : {"gpu:0", "tpu:0", "CUDA:0", "HOST", "", ":"})
    EXPECT_EQ(refusal([text] { parse_device(text); }),
              "device '" + std::string(text) + "': expected cpu:N or cuda:N");
}

TEST(Device, WithoutAProperIndexOrLaneIsRefusedWithOneThatIs) {
  const auto says = [](const char* text, const std::string& why) {
    EXPECT_EQ(refusal([text] { parse_device(text); }), "device '" + std::string(text) + "': " + why);
  };
  const std::string core = "; write cpu:0, or cpu:1 for the second core", gpu = "; write cuda:0",
                    stream_of_gpu = gpu + "/1 for the second stream of cuda:0";
  says("cpu:", "'' is not an index" + core);
  for (const std::string index : {"x", "1x", "-1", " 1", "1:2", "99999999999x"}) {
    says(("cpu:" + index).c_str(), "'" + index + "' is not an index" + core);
    says(("cuda:" + index).c_str(), "'" + index + "' is not an index" + gpu);
  }
  says("cuda:/1", "'' is not an index" + gpu);
  for (const std::string stream : {"", "x", "-1", "1/2"})
    says(("cuda:0/" + stream).c_str(), "'" + stream + "' is not a stream" + stream_of_gpu);
}

TEST(Device, WhoseNumberIsTooLargeIsRefusedAsThat) {
  EXPECT_THAT(refusal([] { parse_device("cuda:4294967296"); }),
              HasSubstr("'4294967296' is too large for an index; write cuda:0"));
  EXPECT_THAT(refusal([] { parse_device("cpu:99999999999999999999"); }),
              HasSubstr("is too large for an index"));
  EXPECT_THAT(refusal([] { parse_device("cuda:0/99999999999"); }), HasSubstr("is too large for a stream"));
  EXPECT_EQ(parse_device("cuda:4294967295").index, 4294967295U);
}

TEST(Device, IsNoStreamOfACoreAndNoListOfDevices) {
  EXPECT_EQ(refusal([] { parse_device("cpu:1/2"); }), "device 'cpu:1/2': a core has no streams; write cpu:1");
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

/// The control groups of a process, played by files.
class PlayedGroups : public ::testing::Test {
protected:
  void in_groups(std::string_view lines) const { folder_.write("cgroup", lines); }
  void file(const std::string& name, std::string_view text) const {
    const std::filesystem::path path = folder_.path() / "fs" / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::optional<double> quota() const {
    return cores_of_process({folder_.path() / "cgroup", folder_.path() / "fs"}).quota;
  }

  const scratch_folder folder_;
};

TEST_F(PlayedGroups, LimitNothingWithoutFiles) {
  EXPECT_EQ(quota(), std::nullopt);
  in_groups("0::/\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(PlayedGroups, OfVersion2HaveQuotaAndPeriodInOneFile) {
  in_groups("0::/user.slice/run\n");
  file("user.slice/run/cpu.max", "150000 100000\n");
  EXPECT_THAT(quota(), Optional(1.5));
  file("user.slice/run/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(PlayedGroups, AboveThatOfTheProcessLimitItAsWell) {
  in_groups("0::/a/b/c\n");
  file("a/b/c/cpu.max", "400000 100000\n");
  file("a/b/cpu.max", "max 100000\n");
  file("a/cpu.max", "50000 100000\n");
  EXPECT_THAT(quota(), Optional(0.5));
}

TEST_F(PlayedGroups, OfAContainerAreWhereTheyAreMounted) {
  in_groups("0::/\n");
  file("cpu.max", "200000 100000\n");
  EXPECT_THAT(quota(), Optional(2.0));
  in_groups("0::/../other\n"); // outside of the namespace
  EXPECT_THAT(quota(), Optional(2.0));
}

TEST_F(PlayedGroups, OfVersion1HaveTwoFilesUnderTheirController) {
  in_groups("12:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n3:cpuset:/docker/ab\n");
  file("cpu,cpuacct/cpu.cfs_quota_us", "-1\n"); // the container does not see /docker/ab
  file("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  file("cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
  EXPECT_THAT(quota(), Optional(2.5));
  file("memory/cpu.cfs_quota_us", "1000\n");
  file("memory/cpu.cfs_period_us", "100000\n");
  EXPECT_THAT(quota(), Optional(2.5)) << "of another controller";
}

TEST_F(PlayedGroups, OfBothVersionsBesideEachOtherAllCount) {
  in_groups("2:cpu:/a\n0::/b\n");
  file("cpu/a/cpu.cfs_quota_us", "300000\n");
  file("cpu/a/cpu.cfs_period_us", "100000\n");
  file("unified/b/cpu.max", "100000 50000\n");
  EXPECT_THAT(quota(), Optional(2.0));
}

TEST_F(PlayedGroups, OfFilesThatMakeNoSenseLimitNothing) {
  in_groups("no colons\n:\n0::/a\n5:cpu\n");
  for (const char* text : {"", "x y", "100000", "0 100000", "100000 0", "-5 100000", "1e999 1"}) {
    file("a/cpu.max", text);
    EXPECT_EQ(quota(), std::nullopt) << text;
  }
}

TEST(UsableCores, AreThoseOfTheTightestLimit) {
  EXPECT_EQ((usable_cores{8, 8, {}}).count(), 8U);
  EXPECT_EQ((usable_cores{8, 3, {}}).count(), 3U);
  EXPECT_EQ((usable_cores{8, 3, 2.0}).count(), 2U);
  EXPECT_EQ((usable_cores{8, 1, 4.0}).count(), 1U);
  EXPECT_EQ((usable_cores{2, 2, 64.0}).count(), 2U);
}

TEST(UsableCores, CountAPartOfACoreAsOne) {
  for (const auto& [quota, count] :
       {std::pair(0.5, 1U), std::pair(0.01, 1U), std::pair(1.5, 2U), std::pair(1.0, 1U), std::pair(7.2, 8U)})
    EXPECT_EQ((usable_cores{8, 8, quota}).count(), count) << quota;
}

TEST(UsableCores, SayWhyThereAreFewerThanTheMachineHas) {
  EXPECT_EQ((usable_cores{2, 2, {}}).in_words(), "2 cores");
  EXPECT_EQ((usable_cores{1, 1, {}}).in_words(), "1 core");
  EXPECT_EQ((usable_cores{2, 1, {}}).in_words(), "1 of 2 cores: this process is bound to 1");
  EXPECT_EQ((usable_cores{8, 8, 1.5}).in_words(), "2 of 8 cores: its control group has the time of 1.5");
  EXPECT_THAT((usable_cores{8, 4, 0.5}).in_words(),
              AllOf(HasSubstr("1 of 8 cores"), HasSubstr("bound to 4, and its control group")));
  EXPECT_EQ((usable_cores{8, 4, 6.0}).in_words(), "4 of 8 cores: this process is bound to 4");
}

TEST(UsableCores, OfThisProcessAreWhatTheSystemHasSet) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(cores_of_process().bound, static_cast<std::size_t>(CPU_COUNT(&before)));
  std::size_t first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(cores_of_process().bound, 1U);
  EXPECT_EQ(usable_core_devices().size(), 1U);
  sched_setaffinity(0, sizeof before, &before);
}

TEST(WorldCategory, HasWordsForEachCode) {
  EXPECT_STREQ(world_category().name(), "mailgrad");
  using enum world_errc;
  for (const auto& [code, words] :
       {std::pair(no_such_device, "no such device"), std::pair(device_failure, "device failure"),
        std::pair(malformed_file, "malformed file"), std::pair(malformed_message, "malformed message"),
        std::pair(world_errc::out_of_memory, "out of memory"), std::pair(wrong_place, "wrong place")})
    EXPECT_EQ(make_error_code(code).message(), words);
}

TEST(WorldCategory, NamesACodeItDoesNotKnow) { EXPECT_EQ(world_category().message(99), "unknown error 99"); }

TEST(DeviceError, SaysItsLineAndNothingElse) {
  const device_error e(world_errc::device_failure, "cuda:0: out of memory");
  EXPECT_STREQ(e.what(), "cuda:0: out of memory");
  EXPECT_EQ(e.code(), world_errc::device_failure);
}

TEST(OutOfMemory, SaysOnceWhatItWasFor) {
  const auto lacking = []() -> int { throw out_of_memory("cuda:0: out of memory: 4 GiB asked for"); };
  const auto of_a_step = [&] { return naming_memory([] { return "the values of a step"; }, lacking); };
  EXPECT_THAT(
      [&] { naming_memory("a worker", of_a_step); },
      ThrowsMessage<out_of_memory>("cuda:0: out of memory: 4 GiB asked for, for the values of a step"));
}

TEST(OutOfMemory, NamesNoOtherError) {
  const auto lost = []() -> int { throw device_error(world_errc::device_failure, "lost"); };
  EXPECT_THAT([&] { naming_memory("a worker", lost); }, ThrowsMessage<device_error>("lost"));
}

TEST(DeviceError, IsCaughtAsASystemError) {
  EXPECT_THROW(throw device_error(world_errc::no_such_device, "cuda:0"), std::system_error);
}

} // namespace
} // namespace mailgrad
