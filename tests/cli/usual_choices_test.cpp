#include <mailgrad/cli/commands/train_args.hpp>

#include <mailgrad/cli/commands/resumed_args.hpp>
#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/device_option.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/tensor/device.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

device cpu(std::uint32_t index) { return {device_kind::cpu, index}; }
device played_gpu(std::uint32_t index) { return {device_kind::cuda, index}; }

cuda::runtime::gpu answering(std::uint32_t major) {
  cuda::runtime::gpu c;
  c.name = "played";
  c.major = major;
  return c;
}

/// A command line, and what a run of it takes.
class UsualChoices : public ::testing::Test {
protected:
  train_args chosen(std::vector<std::string> words) {
    option_table table(parser_);
    add_options(table, open_);
    add_processes(table, open_.remote);
    parser_.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    return with_usual_choices(open_, parser_);
  }
  std::vector<std::string> recorded(const train_args& w) const { return args_of_run(parser_, w); }
  /// The devices that a run without an option has.
  static std::vector<device> all() {
    return usual_devices(cuda::runtime::find_gpus(), usable_core_devices());
  }

  CLI::App parser_;
  train_args open_ = open_args();
};

TEST(UsualDevices, AreTheGpusThatCanTrainOrElseTheCores) {
  cuda::runtime::found_gpus found;
  EXPECT_THAT(usual_devices(found, {cpu(0), cpu(1)}), ElementsAre(cpu(0), cpu(1)));
  cuda::runtime::gpu silent;
  silent.why_unknown = "busy";
  found.gpus = {silent, answering(7)};
  EXPECT_THAT(usual_devices(found, {cpu(0)}), ElementsAre(cpu(0)));
  found.gpus.push_back(answering(9));
  EXPECT_THAT(usual_devices(found, {cpu(0)}), ElementsAre(played_gpu(2)));
}

TEST_F(UsualChoices, AreAdamAndAllDevicesAndAreRecorded) {
  const train_args w = chosen({});
  EXPECT_EQ(w.optimizer, "adam");
  std::string list;
  for (const device d : all()) list += (list.empty() ? "" : ",") + to_string(d);
  EXPECT_EQ(w.devices, list);
  EXPECT_THAT(recorded(w), ElementsAre("--optimizer=adam", "--devices=" + list, "--policy=sync"));
  EXPECT_EQ(understood(w).devices.size(), all().size());
  EXPECT_THAT(format_choices(w, understood(w)), StartsWith("adam at 0.001 (default), sync (default) on "));
}

TEST_F(UsualChoices, LeaveWhatIsNamedAsItIs) {
  const train_args w = chosen({"--optimizer", "sgd", "--devices", "cpu:0"});
  EXPECT_EQ(w.optimizer, "sgd");
  EXPECT_EQ(w.devices, "cpu:0");
  EXPECT_THAT(recorded(w), ElementsAre("--devices=cpu:0", "--optimizer=sgd"));
  EXPECT_EQ(format_choices(w, understood(w)), "sgd at 0.001 (its default)");
}

TEST_F(UsualChoices, SayWhichOfRuleAndRateWasNamed) {
  const train_args w = chosen({"--lr", "0.01", "--devices", "cpu:0"});
  EXPECT_EQ(format_choices(w, understood(w)), "adam (default) at 0.01");
  train_args both = w;
  both.usual_rule = false;
  EXPECT_EQ(format_choices(both, understood(both)), "adam at 0.01");
}

/// Several workers of adam need each other's gradients while they are fresh.
TEST_F(UsualChoices, AreAsyncWhereACureIsNamed) {
  EXPECT_EQ(chosen({"--cure", "inverse"}).run.policy, "async");
}
TEST_F(UsualChoices, AreAsyncOnDevicesThatAreNamed) {
  const train_args w = chosen({"--devices", "cpu:0,cpu:0"});
  EXPECT_EQ(w.run.policy, "async");
  EXPECT_FALSE(w.usual_policy);
}
TEST_F(UsualChoices, AreTheSameForWorkersOfOtherProcesses) {
  const train_args w = chosen({"--processes", "2"});
  EXPECT_EQ(w.run.policy, "sync");
  EXPECT_THAT(recorded(w), ::testing::Contains("--policy=sync"));
}
TEST_F(UsualChoices, AreAsyncForOtherProcessesWhereACureIsNamed) {
  EXPECT_EQ(chosen({"--processes", "2", "--cure", "inverse"}).run.policy, "async");
}
TEST_F(UsualChoices, LeaveThePolicyThatIsNamed) {
  const train_args w = chosen({"--policy", "ssp:2"});
  EXPECT_EQ(w.run.policy, "ssp:2");
  EXPECT_THAT(format_choices(w, understood(w)), StartsWith("adam at 0.001 (default), on "));
}

TEST_F(UsualChoices, HaveADeviceForEachWorkerInTurns) {
  const train_args w = chosen({"--workers", "5"});
  const training_options o = understood(w);
  EXPECT_EQ(o.workers, 5U);
  ASSERT_EQ(o.devices.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(o.devices[i], all()[i % all().size()]);
}

TEST_F(UsualChoices, ShareOutATrainingSetThatIsSmallerThanABatch) {
  const train_args w = chosen({"--workers", "2"});
  training_options o = understood(w);
  o.words = {"--model=mlp", "--batch=64"};
  fit_usual_batch(w, o, o.batch);
  EXPECT_EQ(o.batch, 64U) << "one batch is there";
  fit_usual_batch(w, o, 63);
  EXPECT_EQ(o.batch, 31U);
  EXPECT_THAT(o.words, ElementsAre("--model=mlp", "--batch=31"));
  EXPECT_THAT(o.args_to_resume, ElementsAre("--batch=31"));
  EXPECT_THAT(format_choices(w, o), HasSubstr(", 31 samples a mini-batch since there are so few"));
  fit_usual_batch(w, o, 1);
  EXPECT_EQ(o.batch, 1U);
}
TEST_F(UsualChoices, LeaveABatchThatIsNamed) {
  const train_args w = chosen({"--batch", "64"});
  training_options o = understood(w);
  fit_usual_batch(w, o, 10);
  EXPECT_EQ(o.batch, 64U) << "it is refused later";
}

TEST_F(UsualChoices, DoNotWriteOutWhatCannotBe) {
  EXPECT_EQ(device_count(chosen({"--workers", "4000000000"}).devices), all().size());
}

/// Before there was a choice, words without these options meant sgd and one core.
TEST(UsualChoicesOfOldFiles, AreWhatTheyWere) {
  recording old;
  old.header.words = {"--model=softmax"};
  const train_args w = recorded_values(old);
  EXPECT_EQ(w.optimizer, "sgd");
  EXPECT_EQ(w.devices, "cpu:0");
  EXPECT_EQ(w.run.policy, "async");
  EXPECT_FALSE(w.usual_rule || w.usual_devices || w.usual_policy);
}

} // namespace
} // namespace mailgrad
