#include <mailgrad/tests/cli/kept_run.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

// Runs of the tool that are killed, stopped and resumed.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using testing::tool;
using testing::words;

class Checkpoints : public testing::KeptRun {};

/// Kills a run with SIGKILL a dozen times, each time wherever it happens to be.
TEST_F(Checkpoints, GoOnAfterKillsToTheSameWeights) {
  const words one{"--shards", "2"};
  const std::string steps = "200000"; // a busy machine may run most of them before it looks
  const std::string whole = report(train(one, steps))["parameters_sha256"];
  std::mt19937 random(1);
  words run = train({"--shards", "2", "--checkpoint", folder(), "--checkpoint-every", "100"}, steps);
  int killed = 0;
  for (int round = 0; round < 12; ++round) {
    const std::filesystem::path before = newest();
    tool t(run);
    await_newer(t, before);
    for (auto looks = random() % 100; looks > 0; --looks) newest();
    t.signal(SIGKILL);
    killed += t.code() == -SIGKILL ? 1 : 0;
    run = {"train", "--same-outputs", "--resume", folder(), "--quiet"};
  }
  EXPECT_GE(killed, 6) << "the run is too short for this test";
  const nlohmann::json last = resumed();
  EXPECT_EQ(last["parameters_sha256"], whole);
  EXPECT_EQ(last["steps"], 200'000);
  EXPECT_EQ(last["ledger"]["produced"], 200'000);
}

/// Alone, a worker of hogwild makes the same weights whatever happens; several train each mini-batch once.
TEST_F(Checkpoints, GoOnAfterKillsUnderHogwild) {
  for (const char* devices : {"cpu:0", "cpu:0,cpu:0"})
    for (const char* policy : {"hogwild", "async, hogwild@20000, ssp:1@60000"}) {
      const words run{"--policy", policy, "--devices", devices, "--shards", "2"};
      SCOPED_TRACE(std::string(policy) + " on " + devices);
      words kept = train(run, "100000");
      if (std::string(policy) !=
          "hogwild") // the moment of a switch makes no difference to a rule without state
        *std::ranges::find(kept, "adam") = "sgd";
      const nlohmann::json whole = report(kept);
      kept.insert(kept.end(), {"--checkpoint", folder(), "--checkpoint-every", "100"});
      for (int round = 0; round < 3; ++round) {
        const std::filesystem::path before = newest();
        tool t(kept);
        await_newer(t, before);
        t.signal(SIGKILL);
        t.code();
        kept = {"train", "--same-outputs", "--resume", folder(), "--quiet"};
      }
      const nlohmann::json last = resumed();
      EXPECT_EQ(last["steps"], 100'000);
      EXPECT_EQ(last["ledger"]["produced"], 100'000);
      EXPECT_EQ(last["ledger"]["lost"], 0);
      if (std::string(policy) == "hogwild") { // the last kill may come behind hogwild's part of the other
        EXPECT_GT(last["checkpoints"]["held_seconds"], 0);
      }
      if (std::string(devices) == "cpu:0") {
        EXPECT_EQ(last["parameters_sha256"], whole["parameters_sha256"]);
      }
      std::filesystem::remove_all(folder());
    }
}

TEST_F(Checkpoints, GoOnAfterCtrlCToTheSameWeights) {
  const words two{"--devices", "cpu:0,cpu:0", "--policy", "sync"};
  const std::string whole = report(train(two))["parameters_sha256"];
  tool t(checkpointed(two));
  await_newer(t);
  t.signal(SIGINT);
  EXPECT_THAT((std::vector<int>{0, 130}), ::testing::Contains(t.code()));
  EXPECT_EQ(resumed()["parameters_sha256"], whole);
}

TEST_F(Checkpoints, MakeARunLonger) {
  const words one{"--shards", "2"};
  const std::string whole = report(train(one, "600"))["parameters_sha256"];
  words shorter = train({"--shards", "2", "--checkpoint", folder()}, "200");
  EXPECT_EQ(report(shorter)["checkpoints"]["written"], 1) << "of the end";
  const nlohmann::json longer = resumed({"--steps", "600"});
  EXPECT_EQ(longer["parameters_sha256"], whole);
  EXPECT_EQ(longer["resumed"]["steps"], 200);
}

TEST_F(Checkpoints, KeepACureAndSeveralPolicies) {
  const words one{"--cure",   "dana-zero",        "--lr",        "0.01",
                  "--policy", "async, ssp:1@150", "--optimizer", "sgd"};
  words options = train(one);
  std::erase(options, "adam");
  options.erase(std::ranges::find(options, "--optimizer"));
  const std::string whole = report(options)["parameters_sha256"];
  words kept = options;
  kept.insert(kept.end(), {"--checkpoint", folder(), "--checkpoint-every", "100"});
  EXPECT_EQ(report(kept)["parameters_sha256"], whole);
  std::filesystem::remove(newest());
  const nlohmann::json last = resumed();
  EXPECT_EQ(last["parameters_sha256"], whole);
  EXPECT_EQ(last["switches"].size(), 1U);
}

TEST_F(Checkpoints, KeepDropoutAScheduleAndLocalSteps) {
  words options = train({"--schedule", "cosine:total=20000,warmup=500", "--clip-norm", "0.5", "--local-steps",
                         "3", "--outer-optimizer", "nesterov", "--outer-lr", "0.7"});
  *std::ranges::find(options, "mlp:hidden=5") = "mlp:hidden=5,dropout=0.3";
  const std::string whole = report(options)["parameters_sha256"];
  options.insert(options.end(), {"--checkpoint", folder(), "--checkpoint-every", "100"});
  EXPECT_EQ(report(options)["parameters_sha256"], whole);
  std::filesystem::remove(newest());
  EXPECT_EQ(resumed()["parameters_sha256"], whole);
}

/// A path of Linux is any bytes.
TEST_F(Checkpoints, KeepAPathThatIsNotUtf8) {
  const std::string data = (scratch_.path() / "caf\xe9.csv").string();
  std::filesystem::copy_file(MAILGRAD_SMALL_CSV, data);
  words options = train({"--checkpoint", folder()}, "200");
  *std::ranges::find(options, MAILGRAD_SMALL_CSV) = data;
  EXPECT_EQ(report(options)["checkpoints"]["written"], 1);
  EXPECT_EQ(resumed({"--steps", "600"})["steps"], 600);
}

TEST_F(Checkpoints, StayAsManyAsAreKept) {
  report(checkpointed({"--keep", "2"}));
  EXPECT_EQ(checkpoints_in(folder()).size(), 2U);
}

TEST_F(Checkpoints, FallBackToTheOneBefore) {
  report(checkpointed({}));
  const auto kept = checkpoints_in(folder());
  ASSERT_GE(kept.size(), 2U);
  std::filesystem::resize_file(kept[0], 100);
  tool t({"train", "--same-outputs", "--resume", folder(), "--quiet"});
  EXPECT_EQ(t.code(), 0);
  EXPECT_THAT(t.err(), HasSubstr("resuming from " + kept[1].string() +
                                 ", since no newer checkpoint can be read: " + kept[0].string() + ": "));
}

/// A folder that has moved, and a run in another working folder, must not write where the first run did.
TEST_F(Checkpoints, GoOnInTheFolderThatIsResumed) {
  report(train({"--checkpoint", folder(), "--keep", "7"}, "200"));
  const std::string moved = (scratch_.path() / "moved").string();
  std::filesystem::rename(folder(), moved);
  report({"train", "--same-outputs", "--resume", moved, "--quiet", "--steps", "400"});
  EXPECT_FALSE(std::filesystem::exists(folder()));
  EXPECT_EQ(checkpoints_in(moved).front().filename(), checkpoint_name(400));
  report({"train", "--same-outputs", "--resume", checkpoints_in(moved).front().string(), "--quiet", "--steps",
          "500"});
  EXPECT_EQ(checkpoints_in(moved).size(), 3U);
  report(
      {"train", "--same-outputs", "--resume", moved, "--checkpoint", folder(), "--quiet", "--steps", "600"});
  EXPECT_EQ(newest().filename(), checkpoint_name(600));
}

TEST_F(Checkpoints, MixWithNoneOfAnotherRun) {
  report(train({"--checkpoint", folder()}, "200"));
  const std::string other = (scratch_.path() / "other").string();
  report(train({"--checkpoint", other}, "100"));
  tool t(
      {"train", "--same-outputs", "--resume", folder(), "--checkpoint", other, "--steps", "300", "--quiet"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), HasSubstr("'" + other + "' holds checkpoints of an earlier run"));
}

TEST_F(Checkpoints, GoOnWithOtherDevices) {
  tool t(checkpointed({"--devices", "cpu:0,cpu:0", "--policy", "async"}));
  await_newer(t);
  t.signal(SIGKILL);
  t.code();
  const nlohmann::json last = resumed({"--devices", "cpu:0,cpu:0,cpu:0"});
  EXPECT_EQ(last["workers"], 3);
  EXPECT_EQ(last["ledger"]["produced"], last["steps"]);
}

/// The folder is that of the checkpoint.
TEST_F(Checkpoints, AreTakenAsOftenAsIsSaidNow) {
  report(train({"--checkpoint", folder(), "--checkpoint-every", "100"}, "200"));
  const auto kept = resumed({"--steps", "300", "--checkpoint-every", "7min", "--keep", "1"});
  EXPECT_THAT(kept["command"], ::testing::IsSupersetOf({"--checkpoint-every=7min", "--keep=1"}));
  EXPECT_EQ(checkpoints_in(folder()).size(), 1U);
}

/// The books begin anew with other workers, but the names of checkpoints count the steps of the whole run.
/// Cores cannot reach weights on a GPU, so what was said of these is left out.
TEST_F(Checkpoints, ForgetWhereWeightsLayOnOtherDevices) {
  report(train({"--checkpoint", folder(), "--parameters", "host", "--run-ahead", "0"}, "200"));
  const words kept = resumed({"--steps", "300"})["command"];
  EXPECT_THAT(kept, ::testing::IsSupersetOf({"--parameters=host", "--run-ahead=0"}));
  const words elsewhere = resumed({"--steps", "400", "--devices", "cpu:0"})["command"];
  EXPECT_THAT(elsewhere, ::testing::Each(::testing::Not(::testing::AnyOf(
                             ::testing::StartsWith("--parameters"), ::testing::StartsWith("--run-ahead")))));
}

TEST_F(Checkpoints, AreRefusedToWorkersThatShallRunAheadAndCannot) {
  report(train({"--checkpoint", folder(), "--parameters", "host", "--clip-norm", "1"}, "200"));
  tool t({"train", "--same-outputs", "--resume", folder(), "--steps", "300", "--parameters", "host",
          "--run-ahead", "1"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), ::testing::HasSubstr("--run-ahead 1: workers do not run ahead with --clip-norm"));
}

TEST_F(Checkpoints, CountTheStepsOfWorkersThatAreNoMore) {
  report(train({"--checkpoint", folder(), "--devices", "cpu:0,cpu:0"}, "200"));
  EXPECT_EQ(resumed({"--devices", "cpu:0", "--steps", "500"})["steps"], 300);
  EXPECT_EQ(newest().filename(), checkpoint_name(500));
  EXPECT_EQ(resumed({"--steps", "900"})["steps"], 700);
  EXPECT_EQ(newest().filename(), checkpoint_name(900));
  EXPECT_EQ(resumed({"--steps", "1000"})["resumed"]["steps"], 900);
  tool t({"train", "--same-outputs", "--resume", folder(), "--steps", "1100", "--quiet"});
  EXPECT_THAT(t.out(), HasSubstr("completed after 1100 steps, 100 of them since the resume; "));
  EXPECT_THAT(t.out(), HasSubstr("the last after step 1100: "));
}

/// A name counts local steps that were lost later, so the state in the file may have fewer.
TEST_F(Checkpoints, HaveNumbersThatNeverFallInTheirFolder) {
  report(train({"--checkpoint", folder()}, "200"));
  std::filesystem::rename(newest(), std::filesystem::path(folder()) / checkpoint_name(220));
  const std::string other = (scratch_.path() / "other").string();
  EXPECT_EQ(resumed({"--steps", "205", "--checkpoint", other})["resumed"]["steps"], 200);
  EXPECT_EQ(checkpoints_in(other).front().filename(), checkpoint_name(205));
  EXPECT_EQ(resumed({"--steps", "210"})["resumed"]["steps"], 200);
  EXPECT_EQ(newest().filename(), checkpoint_name(220));
  EXPECT_EQ(resumed({"--steps", "230"})["resumed"]["steps"], 210) << "the newest";
  EXPECT_EQ(newest().filename(), checkpoint_name(230));
}

TEST_F(Checkpoints, OfACompletedRunSayThatNothingIsLeft) {
  report(train({"--checkpoint", folder(), "--policy", "async, sync@150"}, "300"));
  const std::string saved = (scratch_.path() / "saved.safetensors").string();
  tool less({"train", "--same-outputs", "--resume", folder(), "--steps", "200", "--save", saved});
  EXPECT_EQ(less.code(), 0);
  EXPECT_THAT(less.err(),
              HasSubstr("nothing is left to train: 300 steps are done, and only 200 are asked for; its "));
  EXPECT_THAT(less.err(), ::testing::Not(HasSubstr("step 300 of"))) << "there is no progress to show";
  EXPECT_THAT(less.out(), HasSubstr("completed after 300 steps"));
  EXPECT_TRUE(std::filesystem::exists(saved)) << "its weights are there";
  tool same({"train", "--same-outputs", "--resume", folder(), "--steps", "300"});
  EXPECT_EQ(same.code(), 0);
  EXPECT_THAT(same.err(),
              HasSubstr("nothing is left to train: 300 steps are done, and no more are asked for"));
  tool more({"train", "--same-outputs", "--resume", folder(), "--steps", "400"});
  EXPECT_EQ(more.code(), 0);
  EXPECT_THAT(more.err(), HasSubstr("; sync on cpu:0;")) << "not async, with which the run began";
  EXPECT_THAT(more.err(), ::testing::Not(HasSubstr("nothing is left")));
}

/// A checkpoint that told of fewer steps, and a recording of fewer, could be used no more.
TEST_F(Checkpoints, StayAsTheyAreIfNothingIsLeft) {
  const auto file = [&](const char* name) { return (scratch_.path() / name).string(); };
  tool first(train({"--checkpoint", folder(), "--record", file("run.rec"), "--save", file("w.safetensors"),
                    "--report", file("report.json"), "--metrics", file("metrics.jsonl")},
                   "300"));
  ASSERT_EQ(first.code(), 0) << first.err();
  const auto before = written();
  ASSERT_EQ(before.size(), 5U);
  for (const words& fewer : {words{"--steps", "200"}, words{"--steps", "300"}, words{}}) {
    tool again(with(words{"train", "--same-outputs", "--resume", folder()}, fewer));
    EXPECT_EQ(again.code(), 0) << again.err();
    EXPECT_THAT(again.err(), HasSubstr("its checkpoints stay as they are"));
    EXPECT_EQ(written(), before);
  }
  std::filesystem::remove(file("report.json"));
  tool completed({"train", "--same-outputs", "--resume", folder(), "--quiet"});
  EXPECT_EQ(completed.code(), 0) << completed.err();
  EXPECT_TRUE(std::filesystem::exists(file("report.json"))) << "a run that was killed had not written it";
}

/// A folder that is gone stands for a full disk.
TEST_F(Checkpoints, ThatFailEndNoRun) {
  tool t(train({"--checkpoint", folder(), "--checkpoint-every", "100"}, "200000"));
  await_newer(t);
  std::filesystem::rename(folder(), folder() + "-gone");
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), HasSubstr("checkpoint failed, training goes on: "));
  EXPECT_THAT(t.out(), HasSubstr("failed, the last: "));
}

TEST_F(Checkpoints, OfAReplayGoOn) {
  const std::string recording = (scratch_.path() / "run.rec").string();
  report(train({"--devices", "cpu:0,cpu:0", "--record", recording}, "4000"));
  tool t({"replay", recording, "--checkpoint", folder(), "--checkpoint-every", "100", "--quiet"});
  await_newer(t);
  t.signal(SIGKILL);
  t.code();
  tool again({"replay", recording, "--resume", folder(), "--quiet"});
  EXPECT_EQ(again.code(), 0) << again.err();
  EXPECT_THAT(again.out(), HasSubstr("the same parameters as recorded"));
  EXPECT_EQ(newest().filename(), checkpoint_name(4000)) << "a replay that is resumed keeps checkpoints, too";
}

} // namespace
} // namespace mailgrad
