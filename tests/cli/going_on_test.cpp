#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

// How a run goes on, as its user sees it: from which folder, by which command, and what is said.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::tool;
using words = std::vector<std::string>;

/// Two working folders. The run begins in the first.
class GoingOn : public ::testing::Test {
protected:
  GoingOn() {
    for (const auto& folder : {first_, second_}) std::filesystem::create_directory(folder);
    std::filesystem::copy_file(MAILGRAD_SMALL_CSV, first_ / "small.csv");
  }

  static words with(words all, const words& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static words train(const words& more, const char* steps = "200", const char* kept = "kept") {
    return with({"train", "--model", "mlp:hidden=5", "--data", "small.csv", "--batch", "4", "--steps", steps,
                 "--quiet", "--checkpoint", kept},
                more);
  }
  /// The tool, in that working folder.
  static tool in(const std::filesystem::path& folder, const words& given) {
    return tool(with({"-C", folder.string(), MAILGRAD_TOOL}, given), nullptr, {}, "env");
  }
  static void expect_done(const std::filesystem::path& folder, const words& given) {
    tool t = in(folder, given);
    EXPECT_EQ(t.code(), 0) << t.err();
  }
  words longer(const std::string& steps, const words& more = {}) const {
    return with(
        {"train", "--quiet", "--same-outputs", "--resume", (first_ / "kept").string(), "--steps", steps},
        more);
  }

  const scratch_folder scratch_;
  const std::filesystem::path first_ = scratch_.path() / "first", second_ = scratch_.path() / "second";
};

/// Whoever made a checkpoint does not say where others write.
TEST_F(GoingOn, WritesOnlyWhatIsNamedOrAskedFor) {
  expect_done(first_, train({"--report", "run.json", "--save", "w.safetensors", "--record", "run.rec"}));
  const auto remove_all = [&] {
    for (const char* name : {"run.json", "w.safetensors", "run.rec"}) std::filesystem::remove(first_ / name);
  };
  remove_all();
  tool t =
      in(first_, {"train", "--quiet", "--resume", "kept", "--steps", "300", "--save", "other.safetensors"});
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(),
              HasSubstr("; without --report=run.json, --record=run.rec, which --same-outputs would write\n"));
  for (const char* name : {"run.json", "w.safetensors", "run.rec"})
    EXPECT_FALSE(std::filesystem::exists(first_ / name)) << name;
  EXPECT_TRUE(std::filesystem::exists(first_ / "other.safetensors"));
  tool none = in(first_, {"train", "--same-outputs", "--model", "mlp"});
  EXPECT_EQ(none.code(), 2);
  EXPECT_THAT(none.err(), HasSubstr("--resume"));
}

TEST_F(GoingOn, FindsThePathsThatWereTypedInAnotherFolder) {
  expect_done(first_, train({"--metrics", "run.jsonl"}));
  {
    tool t = in(second_, longer("300", {"--save", "w.safetensors"}));
    EXPECT_EQ(t.code(), 0) << t.err();
    EXPECT_THAT(t.err(), HasSubstr(" of --data, --metrics are those of " + first_.string() + "\n"));
  }
  EXPECT_TRUE(std::filesystem::exists(first_ / "run.jsonl.old"));
  EXPECT_FALSE(std::filesystem::exists(second_ / "run.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(second_ / "w.safetensors")) << "it was typed there";
  expect_done(second_, longer("400"));
  tool back = in(first_, longer("500"));
  EXPECT_EQ(back.code(), 0) << back.err();
  EXPECT_THAT(back.err(), HasSubstr(" of --save are those of " + second_.string() + "\n"));
}

TEST_F(GoingOn, FindsATraceOfDelays) {
  std::ofstream(first_ / "times.csv") << "t,worker,duration\n0,0,0\n";
  expect_done(first_, train({"--delays", "trace:times.csv"}));
  tool t = in(second_, longer("300"));
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), HasSubstr(" of --data, --delays are those of "));
}

/// A project that was copied or moved goes on with its own files.
TEST_F(GoingOn, TakesWhatIsHereFirst) {
  expect_done(first_, train({}));
  std::filesystem::copy_file(first_ / "small.csv", second_ / "small.csv");
  tool t = in(second_, longer("300"));
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), Not(HasSubstr("--data")));
}

TEST_F(GoingOn, NamesThePathThatItTried) {
  expect_done(first_, train({}));
  std::filesystem::remove(first_ / "small.csv");
  tool t = in(second_, longer("300"));
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), HasSubstr((first_ / "small.csv").string()));
}

TEST_F(GoingOn, FindsItsPlugIns) {
  for (const char* file : {"own_momentum.so", "fair_turns.so", "fading.so"})
    std::filesystem::copy_file(std::filesystem::path(MAILGRAD_TEST_PLUGINS) / file, first_ / file);
  expect_done(first_, train({"--optimizer", "./own_momentum.so", "--cure", "./fading.so", "--policy",
                             "async, ./fair_turns.so:1@150"}));
  tool none = in(second_, longer("400"));
  EXPECT_EQ(none.code(), 2);
  words trusted;
  for (const char* file : {"own_momentum.so", "fair_turns.so", "fading.so"}) {
    EXPECT_THAT(none.err(), HasSubstr(" --plugin " + (first_ / file).string()));
    trusted.insert(trusted.end(), {"--plugin", (first_ / file).string()});
  }
  tool t = in(second_, longer("400", trusted));
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), HasSubstr("; the paths of "));
  EXPECT_THAT(t.out(), HasSubstr("completed after 400 steps"));
}

/// A resume alone would end at once.
TEST_F(GoingOn, TakesAnotherConditionIfTheRunWasTrainedEnough) {
  tool t = in(first_, train({"--metrics-every", "1", "--stop-when", "steps>=60"}, "100000"));
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.out(),
              HasSubstr("\ngoes on by    mailgrad train --resume kept  # with another --stop-when\n"));
  expect_done(first_, {"train", "--quiet", "--same-outputs", "--resume", "kept", "--steps", "300",
                       "--stop-when", "steps>=1e9"});
  tool patient =
      in(first_, train({"--lr", "0", "--evaluate-every", "5", "--patience", "2"}, "1000000", "other"));
  EXPECT_EQ(patient.code(), 0) << patient.err();
  EXPECT_THAT(patient.out(),
              HasSubstr("\ngoes on by    mailgrad train --resume other  # with another --patience\n"));
}

TEST_F(GoingOn, SaysThatTheRateIsAtItsEnd) {
  expect_done(first_, train({"--schedule", "cosine:total=200"}));
  tool t = in(first_, longer("400"));
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), HasSubstr("the learning rate is 0 after 200 updates by --schedule cosine:total=200,"));
}

struct PastedCommand : GoingOn, ::testing::WithParamInterface<words> {
  /// Interrupts a run, and returns the command that it prints.
  static std::string remedy(tool& run) {
    EXPECT_TRUE(run.says(", loss ")) << run.err();
    run.signal(SIGINT);
    EXPECT_EQ(run.code(), 128 + SIGINT) << run.err();
    const std::string said = run.out(), begin = "\ngoes on by    ";
    const std::size_t at = said.find(begin);
    if (at == std::string::npos) return "no command: " + said + run.err();
    return said.substr(at + begin.size(), said.find('\n', at + 1) - at - begin.size());
  }
  /// A shell that runs the command in the first folder.
  tool paste(const std::string& command) const {
    const std::string tools = std::filesystem::path(MAILGRAD_TOOL).parent_path().string();
    return tool({"-c", "cd '" + first_.string() + "' && PATH=" + tools + ":$PATH && exec " + command},
                nullptr, {}, "sh");
  }
};

TEST_P(PastedCommand, GoesOnWithTheRun) {
  const std::string odd = "it's \"my\" $HOME data.csv";
  std::filesystem::copy_file(first_ / "small.csv", first_ / odd);
  std::ofstream(first_ / "table.csv") << "who,what,label\n0,1,a\n1,2,b\n2,0,a\n0,2,b\n1,1,a\n2,2,b\n";
  std::filesystem::create_directory(first_ / "my ratings");
  std::ofstream(first_ / "my ratings/ratings.dat")
      << "1::2::5::0\n2::1::3::0\n1::3::4::0\n3::1::2::0\n2::2::1::0\n"
         "3::3::5::0\n";
  tool run = in(first_, with({"train", "--batch", "2", "--steps", "100000000", "--checkpoint", "kept it's"},
                             GetParam()));
  const std::string command = remedy(run);
  EXPECT_THAT(command, ::testing::StartsWith("mailgrad train "));
  tool pasted = paste(command);
  EXPECT_EQ(remedy(pasted), command);
  EXPECT_THAT(pasted.err(), HasSubstr("resuming from "));
}

INSTANTIATE_TEST_SUITE_P(
    Options, PastedCommand,
    ::testing::Values(
        words{"--data", "it's \"my\" $HOME data.csv", "--report", "a report.json", "--save",
              "a b.safetensors"},
        words{"--data", "small.csv", "--devices", "cpu:0,cpu:0", "--local-steps", "3", "--outer-optimizer",
              "momentum:momentum=0.5"},
        words{"--data", "small.csv", "--devices", "cpu:0,cpu:0", "--shards", "2", "--policy", "ringmaster:8",
              "--cure", "dc-asgd:0.04", "--keep-weights", "best", "--evaluate-every", "50"},
        words{"--data", "small.csv", "--devices", "cpu:0,cpu:0", "--policy", "ssp:2, async@50", "--cure",
              "dana-zero", "--validation", "0.2", "--schedule", "cosine:total=100000000"},
        words{"--data", "table.csv", "--categories", "who,what", "--label", "label", "--header", "yes",
              "--missing", "drop", "--test-fraction", "0.2"},
        words{"--data", "my ratings", "--model", "dlrm", "--split", "random", "--optimizer", "adagrad",
              "--shards", "2"},
        words{"--data", "small.csv", "--processes", "2", "--local-steps", "2", "--wire", "bfloat16"},
        words{"--data", "small.csv", "--processes", "2", "--when-alone", "end", "--heartbeat", "500",
              "--record", "run.rec"}));

TEST_F(GoingOn, NamesReplayForAReplay) {
  expect_done(first_, train({"--record", "run.rec"}, "200000"));
  tool replay = in(first_, {"replay", "run.rec", "--data", "./small.csv", "--checkpoint", "replayed",
                            "--checkpoint-every", "100", "--quiet"});
  while (!std::filesystem::is_directory(first_ / "replayed") || checkpoints_in(first_ / "replayed").empty())
    if (!replay.runs()) break;
  replay.signal(SIGINT);
  if (replay.code() != 0) {
    EXPECT_THAT(replay.out(),
                HasSubstr("\ngoes on by    mailgrad replay run.rec --data=./small.csv --resume replayed\n"));
  }
  tool other =
      in(first_, {"train", "--quiet", "--same-outputs", "--resume", "replayed", "--steps", "300000"});
  EXPECT_EQ(other.code(), 2);
  EXPECT_THAT(other.err(), AllOf(HasSubstr(" is of a replay, which goes on by 'mailgrad replay RECORDING "),
                                 HasSubstr("--resume replayed/checkpoint-")));
}

} // namespace
} // namespace mailgrad
