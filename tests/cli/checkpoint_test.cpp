#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/full_disk.hpp>

#include <mailgrad/engine/checkpoint/best_weights.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <random>

// Runs of the tool that are killed, stopped and resumed.

namespace mailgrad::testing {
namespace {

/// Runs that keep checkpoints in a folder.
struct KeptRun : ToolTest {
  static words train(const words& more, const std::string& steps = "20000") {
    return testing::train("--quiet --optimizer adam --steps"_w + steps + more, "mlp:hidden=5");
  }
  words checkpointed(const words& more) const {
    return train("--checkpoint-every 100 --checkpoint"_w + kept + more);
  }
  /// The newest checkpoint; empty if there is none.
  std::filesystem::path newest() const {
    if (!std::filesystem::is_directory(kept)) return {};
    const auto all = checkpoints_in(kept);
    return all.empty() ? std::filesystem::path() : all.front();
  }
  /// Looks until the run has written another checkpoint than this one, or has ended.
  void await_newer(const tool& t, const std::filesystem::path& than = {}) const {
    while (newest() == than && t.runs()) {
    }
  }
  /// Kills a run so many looks behind its first checkpoint. Returns its exit code.
  int kill_behind_a_checkpoint(const words& run, unsigned long looks = 0) const {
    const std::filesystem::path before = newest();
    tool t(run);
    await_newer(t, before);
    for (; looks > 0; --looks) newest();
    t.signal(SIGKILL);
    return t.code();
  }
  /// All files that runs have written, by their paths.
  std::map<std::string, std::string> written() const {
    std::map<std::string, std::string> all;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder.path()))
      if (file.is_regular_file()) all[file.path().string()] = content_of(file.path());
    return all;
  }
  json trained(const words& run) const {
    done(run + "--report"_w + path("run.json"));
    return report();
  }
  json resumed(const words& more = {}) const { return trained(resume + "--quiet"_w + more); }

  const std::string kept = path("kept"), other = path("other");
  const words resume = "train --same-outputs --resume"_w + kept;
};

struct Checkpoints : KeptRun {};

/// Kills a run with SIGKILL a dozen times, each time wherever it happens to be.
TEST_F(Checkpoints, GoOnAfterKillsToTheSameWeights) {
  const std::string steps = "200000"; // a busy machine may run most of them before it looks
  const std::string whole = trained(train("--shards 2"_w, steps))["parameters_sha256"];
  std::mt19937 random(1);
  words run = train("--shards 2 --checkpoint-every 100 --checkpoint"_w + kept, steps);
  int killed = 0;
  for (int round = 0; round < 12; ++round) {
    killed += kill_behind_a_checkpoint(run, random() % 100) == -SIGKILL ? 1 : 0;
    run = resume + "--quiet"_w;
  }
  EXPECT_GE(killed, 6) << "the run is too short for this test";
  const json last = resumed();
  EXPECT_EQ(last["parameters_sha256"], whole);
  EXPECT_EQ(last["steps"], 200'000);
  EXPECT_EQ(last["ledger"]["produced"], 200'000);
}

/// Alone, a worker of hogwild makes the same weights whatever happens; several train each mini-batch once.
TEST_F(Checkpoints, GoOnAfterKillsUnderHogwild) {
  for (const std::string devices : {"cpu:0", "cpu:0,cpu:0"})
    for (const std::string policy : {"hogwild", "async, hogwild@20000, ssp:1@60000"}) {
      SCOPED_TRACE(policy + " on " + devices);
      words run = train("--shards 2 --devices"_w + devices + "--policy"_w + policy, "100000");
      if (policy != "hogwild") // the moment of a switch makes no difference to a rule without state
        *std::ranges::find(run, "adam") = "sgd";
      const json whole = trained(run);
      run = run + "--checkpoint-every 100 --checkpoint"_w + kept;
      for (int round = 0; round < 3; ++round) {
        kill_behind_a_checkpoint(run);
        run = resume + "--quiet"_w;
      }
      const json last = resumed();
      EXPECT_EQ(last["steps"], 100'000);
      EXPECT_EQ(last["ledger"]["produced"], 100'000);
      EXPECT_EQ(last["ledger"]["lost"], 0);
      if (policy == "hogwild") { // the last kill may come behind hogwild's part of the other
        EXPECT_GT(last["checkpoints"]["held_seconds"], 0);
      }
      if (devices == "cpu:0") {
        EXPECT_EQ(last["parameters_sha256"], whole["parameters_sha256"]);
      }
      std::filesystem::remove_all(kept);
    }
}

TEST_F(Checkpoints, GoOnAfterCtrlCToTheSameWeights) {
  const words two = "--devices cpu:0,cpu:0 --policy sync"_w;
  const std::string whole = trained(train(two))["parameters_sha256"];
  tool t(checkpointed(two));
  await_newer(t);
  t.signal(SIGINT);
  EXPECT_THAT((std::vector<int>{0, 130}), Contains(t.code()));
  EXPECT_EQ(resumed()["parameters_sha256"], whole);
}

TEST_F(Checkpoints, MakeARunLonger) {
  const std::string whole = trained(train("--shards 2"_w, "600"))["parameters_sha256"];
  EXPECT_EQ(trained(train("--shards 2 --checkpoint"_w + kept, "200"))["checkpoints"]["written"], 1)
      << "of the end";
  const json longer = resumed("--steps 600"_w);
  EXPECT_EQ(longer["parameters_sha256"], whole);
  EXPECT_EQ(longer["resumed"]["steps"], 200);
}

TEST_F(Checkpoints, KeepACureAndSeveralPolicies) {
  words run = train("--cure dana-zero --lr 0.01 --policy 'async, ssp:1@150'"_w);
  *std::ranges::find(run, "adam") = "sgd";
  const std::string whole = trained(run)["parameters_sha256"];
  EXPECT_EQ(trained(run + "--checkpoint-every 100 --checkpoint"_w + kept)["parameters_sha256"], whole);
  std::filesystem::remove(newest());
  const json last = resumed();
  EXPECT_EQ(last["parameters_sha256"], whole);
  EXPECT_EQ(last["switches"].size(), 1U);
}

TEST_F(Checkpoints, KeepDropoutAScheduleAndLocalSteps) {
  words run = train("--schedule cosine:total=20000,warmup=500 --clip-norm 0.5 --local-steps 3 "
                    "--outer-optimizer nesterov --outer-lr 0.7"_w);
  *std::ranges::find(run, "mlp:hidden=5") = "mlp:hidden=5,dropout=0.3";
  const std::string whole = trained(run)["parameters_sha256"];
  EXPECT_EQ(trained(run + "--checkpoint-every 100 --checkpoint"_w + kept)["parameters_sha256"], whole);
  std::filesystem::remove(newest());
  EXPECT_EQ(resumed()["parameters_sha256"], whole);
}

/// A path of Linux is any bytes.
TEST_F(Checkpoints, KeepAPathThatIsNotUtf8) {
  const std::string data = path("caf\xe9.csv");
  std::filesystem::copy_file(MAILGRAD_SMALL_CSV, data);
  words run = train("--checkpoint"_w + kept, "200");
  *std::ranges::find(run, MAILGRAD_SMALL_CSV) = data;
  EXPECT_EQ(trained(run)["checkpoints"]["written"], 1);
  EXPECT_EQ(resumed("--steps 600"_w)["steps"], 600);
}

TEST_F(Checkpoints, StayAsManyAsAreKept) {
  done(checkpointed("--keep 2"_w));
  EXPECT_EQ(checkpoints_in(kept).size(), 2U);
}

TEST_F(Checkpoints, FallBackToTheOneBefore) {
  done(checkpointed({}));
  const auto all = checkpoints_in(kept);
  ASSERT_GE(all.size(), 2U);
  std::filesystem::resize_file(all[0], 100);
  EXPECT_THAT(done(resume + "--quiet"_w).err,
              HasSubstr("resuming from " + all[1].string() +
                        ", since no newer checkpoint can be read: " + all[0].string() + ": "));
}

/// A folder that has moved, and a run in another working folder, must not write where the first run did.
TEST_F(Checkpoints, GoOnInTheFolderThatIsResumed) {
  done(train("--keep 7 --checkpoint"_w + kept, "200"));
  const std::string moved = path("moved");
  std::filesystem::rename(kept, moved);
  const auto go_on = [](const std::string& from, const words& more) {
    done("train --same-outputs --quiet --resume"_w + from + more);
  };
  go_on(moved, "--steps 400"_w);
  EXPECT_FALSE(std::filesystem::exists(kept));
  EXPECT_EQ(checkpoints_in(moved).front().filename(), checkpoint_name(400));
  go_on(checkpoints_in(moved).front(), "--steps 500"_w);
  EXPECT_EQ(checkpoints_in(moved).size(), 3U);
  go_on(moved, "--steps 600 --checkpoint"_w + kept);
  EXPECT_EQ(newest().filename(), checkpoint_name(600));
}

TEST_F(Checkpoints, MixWithNoneOfAnotherRun) {
  done(train("--checkpoint"_w + kept, "200"));
  done(train("--checkpoint"_w + other, "100"));
  expect_error(resume + "--steps 300 --quiet --checkpoint"_w + other,
               "'" + other + "' holds checkpoints of an earlier run");
}

TEST_F(Checkpoints, GoOnWithOtherDevices) {
  kill_behind_a_checkpoint(checkpointed("--devices cpu:0,cpu:0 --policy async"_w));
  const json last = resumed("--devices cpu:0,cpu:0,cpu:0"_w);
  EXPECT_EQ(last["workers"], 3);
  EXPECT_EQ(last["ledger"]["produced"], last["steps"]);
}

/// The folder is that of the checkpoint.
TEST_F(Checkpoints, AreTakenAsOftenAsIsSaidNow) {
  done(train("--checkpoint-every 100 --checkpoint"_w + kept, "200"));
  EXPECT_THAT(resumed("--steps 300 --checkpoint-every 7min --keep 1"_w)["command"],
              IsSupersetOf({"--checkpoint-every=7min", "--keep=1"}));
  EXPECT_EQ(checkpoints_in(kept).size(), 1U);
}

/// The books begin anew with other workers, but the names of checkpoints count the steps of the whole run.
/// Cores cannot reach weights on a GPU, so what was said of these is left out.
TEST_F(Checkpoints, ForgetWhereWeightsLayOnOtherDevices) {
  done(train("--parameters host --run-ahead 0 --checkpoint"_w + kept, "200"));
  const words same = resumed("--steps 300"_w)["command"];
  EXPECT_THAT(same, IsSupersetOf({"--parameters=host", "--run-ahead=0"}));
  const words elsewhere = resumed("--steps 400 --devices cpu:0"_w)["command"];
  EXPECT_THAT(elsewhere, Each(Not(AnyOf(StartsWith("--parameters"), StartsWith("--run-ahead")))));
}

TEST_F(Checkpoints, AreRefusedToWorkersThatShallRunAheadAndCannot) {
  done(train("--parameters host --clip-norm 1 --checkpoint"_w + kept, "200"));
  expect_error(resume + "--steps 300 --parameters host --run-ahead 1"_w,
               "--run-ahead 1: workers do not run ahead with --clip-norm");
}

TEST_F(Checkpoints, CountTheStepsOfWorkersThatAreNoMore) {
  done(train("--devices cpu:0,cpu:0 --checkpoint"_w + kept, "200"));
  EXPECT_EQ(resumed("--devices cpu:0 --steps 500"_w)["steps"], 300);
  EXPECT_EQ(newest().filename(), checkpoint_name(500));
  EXPECT_EQ(resumed("--steps 900"_w)["steps"], 700);
  EXPECT_EQ(newest().filename(), checkpoint_name(900));
  EXPECT_EQ(resumed("--steps 1000"_w)["resumed"]["steps"], 900);
  EXPECT_THAT(
      done(resume + "--steps 1100 --quiet"_w).out,
      HasAll("completed after 1100 steps, 100 of them since the resume; ", "the last after step 1100: "));
}

/// A name counts local steps that were lost later, so the state in the file may have fewer.
TEST_F(Checkpoints, HaveNumbersThatNeverFallInTheirFolder) {
  done(train("--checkpoint"_w + kept, "200"));
  std::filesystem::rename(newest(), std::filesystem::path(kept) / checkpoint_name(220));
  EXPECT_EQ(resumed("--steps 205 --checkpoint"_w + other)["resumed"]["steps"], 200);
  EXPECT_EQ(checkpoints_in(other).front().filename(), checkpoint_name(205));
  EXPECT_EQ(resumed("--steps 210"_w)["resumed"]["steps"], 200);
  EXPECT_EQ(newest().filename(), checkpoint_name(220));
  EXPECT_EQ(resumed("--steps 230"_w)["resumed"]["steps"], 210) << "the newest";
  EXPECT_EQ(newest().filename(), checkpoint_name(230));
}

TEST_F(Checkpoints, OfACompletedRunSayThatNothingIsLeft) {
  done(train("--policy 'async, sync@150' --checkpoint"_w + kept, "300"));
  const spoken less = done(resume + "--steps 200 --save"_w + path("saved.safetensors"));
  EXPECT_THAT(less.err,
              HasSubstr("nothing is left to train: 300 steps are done, and only 200 are asked for; its "));
  EXPECT_THAT(less.err, Not(HasSubstr("step 300 of"))) << "there is no progress to show";
  EXPECT_THAT(less.out, HasSubstr("completed after 300 steps"));
  EXPECT_TRUE(std::filesystem::exists(path("saved.safetensors"))) << "its weights are there";
  EXPECT_THAT(done(resume + "--steps 300"_w).err,
              HasSubstr("nothing is left to train: 300 steps are done, and no more are asked for"));
  const spoken more = done(resume + "--steps 400"_w);
  EXPECT_THAT(more.err, HasSubstr("; sync on cpu:0;")) << "not async, with which the run began";
  EXPECT_THAT(more.err, Not(HasSubstr("nothing is left")));
}

/// A checkpoint that told of fewer steps, and a recording of fewer, could be used no more.
TEST_F(Checkpoints, StayAsTheyAreIfNothingIsLeft) {
  done(train("--record"_w + path("run.rec") + "--save"_w + path("w.safetensors") + "--report"_w +
                 path("report.json") + "--metrics"_w + path("metrics.jsonl") + "--checkpoint"_w + kept,
             "300"));
  const auto before = written();
  ASSERT_EQ(before.size(), 5U);
  for (const words& fewer : {"--steps 200"_w, "--steps 300"_w, words{}}) {
    EXPECT_THAT(done(resume + fewer).err, HasSubstr("its checkpoints stay as they are"));
    EXPECT_EQ(written(), before);
  }
  std::filesystem::remove(path("report.json"));
  done(resume + "--quiet"_w);
  EXPECT_TRUE(std::filesystem::exists(path("report.json"))) << "a run that was killed had not written it";
}

/// A folder that is gone stands for a full disk.
TEST_F(Checkpoints, ThatFailEndNoRun) {
  tool t(train("--checkpoint-every 100 --checkpoint"_w + kept, "200000"));
  await_newer(t);
  std::filesystem::rename(kept, kept + "-gone");
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), HasSubstr("checkpoint failed, training goes on: "));
  EXPECT_THAT(t.out(), HasSubstr("failed, the last: "));
}

TEST_F(Checkpoints, OfAReplayGoOn) {
  const words replay = "replay --quiet"_w + path("run.rec");
  done(train("--devices cpu:0,cpu:0 --record"_w + path("run.rec"), "4000"));
  kill_behind_a_checkpoint(replay + "--checkpoint-every 100 --checkpoint"_w + kept);
  EXPECT_THAT(done(replay + "--resume"_w + kept).out, HasSubstr("the same parameters as recorded"));
  EXPECT_EQ(newest().filename(), checkpoint_name(4000)) << "a replay that is resumed keeps checkpoints, too";
}

/// Runs that are recorded and keep checkpoints.
struct RecordedCheckpoints : KeptRun {
  const std::string recording = path("run.rec");
};

/// Killed again and again, a run leaves one recording, of all that it has done.
TEST_F(RecordedCheckpoints, LetARecordingGoOn) {
  words run = train("--devices cpu:0,cpu:0 --policy 'async, ssp:1@20000' --shards 2 --checkpoint-every 100 "
                    "--record"_w +
                        recording + "--checkpoint"_w + kept,
                    "50000");
  int killed = 0;
  for (int round = 0; round < 4; ++round) {
    const std::filesystem::path before = newest();
    tool t(run);
    await_newer(t, before);
    t.signal(SIGKILL);
    killed += t.code() == -SIGKILL ? 1 : 0;
    EXPECT_THAT(t.err(), Not(HasSubstr("without a recording")));
    run = resume + "--quiet"_w;
  }
  EXPECT_GE(killed, 2);
  EXPECT_EQ(resumed()["ledger"]["produced"], 50'000);
  EXPECT_THAT(done("replay --quiet"_w + recording).out, HasSubstr("the same parameters as recorded"));
  EXPECT_FALSE(std::filesystem::exists(recording + ".before"));
}

TEST_F(RecordedCheckpoints, GoOnWithoutARecordingThatIsGone) {
  kill_behind_a_checkpoint(checkpointed("--record"_w + recording));
  for (const char* suffix : {"", ".partial"}) std::filesystem::remove(recording + suffix);
  expect_error(resume + "--quiet --record"_w + recording,
               "there is no recording '" + recording + "'; leave --record out");
  EXPECT_THAT(done(resume + "--quiet"_w).err, HasSubstr("this run goes on without a recording: "));
}

TEST_F(RecordedCheckpoints, OfARecordedRunGoOnWithOtherDevicesAndNoRecording) {
  kill_behind_a_checkpoint(checkpointed("--devices cpu:0,cpu:0 --record"_w + recording));
  EXPECT_THAT(done(resume + "--quiet --devices cpu:0,cpu:0,cpu:0"_w).err,
              HasAll("this run goes on without a recording: ", "is of a run with other workers"));
}

TEST_F(RecordedCheckpoints, OfARunThatWasNotRecordedBeginNoRecording) {
  done(train("--checkpoint"_w + kept, "200"));
  expect_error(resume + "--quiet --steps 400 --record"_w + recording,
               "would lack what came before; leave --record out");
}

/// Checkpoints that the tool refuses to go on from, or to take for something else.
struct RefusedCheckpoints : KeptRun {};

TEST_F(RefusedCheckpoints, OfAnotherRunAreRefused) {
  done(checkpointed({}));
  const auto refused = [this](const words& more, const words& says) {
    const std::string line = refusal(resume + "--quiet"_w + more);
    for (const std::string& text : says) EXPECT_THAT(line, HasSubstr(text));
  };
  refused("--seed 5"_w, {"; --seed was 1, and is 5 here"});
  refused("--seed 5 --model mlp:hidden=6"_w, {"; --seed was 1, and is 5 here"});
  std::filesystem::copy_file(MAILGRAD_SMALL_CSV, path("other.csv"));
  std::ofstream(path("other.csv"), std::ios::app) << "1,1,1,0\n";
  refused("--data"_w + path("other.csv"),
          {"the training data were small.csv (SHA-256 ", ", and are other.csv (SHA-256 "});
  refused("--model mlp:hidden=6"_w,
          {"the model was mlp:hidden=5 (SHA-256 ", ", and is mlp:hidden=6 (SHA-256 "});
  refused("--shards 3"_w, {"--shards was 1, and is 3 here"});
  const std::string alone = "checkpoint '" + newest().string() + "' is of another run: ";
  refused("--batch 8"_w, {alone + "--batch was 4, and is 8 here\n"});
  refused("--optimizer adam:beta1=0.8"_w,
          {alone + "--optimizer was adam:beta1=0.9,beta2=0.999,epsilon=1e-8, and is "
                   "adam:beta1=0.8,beta2=0.999,epsilon=1e-8 here\n"});
  refused("--batch 8 --model mlp:hidden=6"_w, {"the model was mlp:hidden=5 (SHA-256 "});
  refused("--policy hogwild"_w, {"--policy was async, and is hogwild here"});
  refused("--load weights.safetensors"_w, {"leave --load out"});
  expect_error(checkpointed({}), "holds checkpoints of an earlier run");
}

TEST_F(RefusedCheckpoints, AreNoFilesOfWeights) {
  done(train("--save"_w + path("w.safetensors") + "--checkpoint"_w + kept, "200"));
  best_weights(kept).offer({.steps = 200, .loss = 1}, std::vector<float>(1));
  const std::string best = (std::filesystem::path(kept) / best_weights::file_name).string();
  const auto refused = [](const words& run, const std::string& why) {
    tool t(run);
    EXPECT_NE(t.code(), 0) << run[0];
    EXPECT_THAT(t.err(), HasSubstr(why));
  };
  const words of_data = "--data"_w + MAILGRAD_SMALL_CSV + "--model-file";
  for (const words& use : {"test"_w + of_data, "predict"_w + of_data, train("--load"_w)}) {
    refused(use + kept, kept +
                            ": expected a file of weights, found a folder of checkpoints; 'mailgrad train "
                            "--resume " +
                            kept + " --steps 1 --save weights.safetensors' writes");
    refused(use + newest(), newest().string() + ": expected a file of weights, found a checkp");
    refused(use + best,
            "found the best weights that a run keeps beside its checkpoints; 'mailgrad train --resume " +
                kept + " --steps 1 --save ");
  }
  const words from = "train --same-outputs --resume"_w;
  refused(from + path("w.safetensors"),
          "expected a checkpoint, found a file of weights; 'mailgrad train --load' begins a run with them");
  refused(from + best, "expected a checkpoint, found the best weights of a run");
  const auto before = written();
  done(from + newest() + "--steps 1 --quiet --save"_w + path("out.npz"));
  EXPECT_EQ(written().at(newest().string()), before.at(newest().string()));
  refused(from + path("out.npz"), "found a file of weights");
}

/// What the first has written, the second would remove.
TEST_F(RefusedCheckpoints, AreThoseOfOneProcessAtATime) {
  tool first(train("--checkpoint-every 100 --checkpoint"_w + kept, "2000000"));
  await_newer(first);
  expect_error(resume + "--quiet"_w, kept + ": another run keeps its checkpoints there (process ");
  first.signal(SIGKILL);
  EXPECT_EQ(first.code(), -SIGKILL);
  const std::string steps = std::to_string(steps_named_in(kept, newest()) + 50);
  EXPECT_EQ(resumed("--steps"_w + steps)["steps"], std::stoull(steps));
}

/// A run that another one keeps out has said nothing of itself and touched nothing, also if its recording is
/// gone.
TEST_F(RefusedCheckpoints, OfARunThatGoesOnAreRefusedInOneLine) {
  tool first(
      train("--checkpoint-every 100 --record"_w + path("run.rec") + "--checkpoint"_w + kept, "2000000"));
  await_newer(first);
  std::filesystem::remove(path("run.rec.partial"));
  for (const words& more : {words{}, "--processes 2"_w})
    expect_refused(resume + more, "mailgrad: " + kept + ": another run keeps its ");
}

/// Later checkpoints were set aside before the disk was asked for the room of the weights.
TEST_F(RefusedCheckpoints, OfARunThatIsRefusedAreLeftAlone) {
  done(train("--record"_w + path("run.rec") + "--checkpoint"_w + kept, "100"));
  for (const char* steps : {"200", "300"}) done(resume + "--quiet --steps"_w + steps);
  const auto before = written();
  const auto refused = [&](const words& more, int code, const std::string& why) {
    const std::string line =
        refusal("train --same-outputs --steps 400 --resume"_w + checkpoints_in(kept).back() + more, code);
    EXPECT_THAT(line, AllOf(IsOneLine(), HasSubstr(why)));
    EXPECT_EQ(written(), before) << why;
  };
  {
    const full_disk full(10'000);
    refused("--save"_w + path("w.safetensors"), 1, "weights '" + path("w.safetensors") + "' need ");
  }
  refused("--seed 7"_w, 2, "--seed was 1, and is 7 here");
  refused("--metrics /dev/null/m"_w, 2, "cannot be written");
}

TEST_F(RefusedCheckpoints, OfAServerToWhichNobodyComesAreLeftAlone) {
  done(train("--metrics"_w + path("run.jsonl") + "--checkpoint"_w + kept, "100"));
  done(resume + "--quiet --steps 200"_w);
  const auto before = written();
  tool none("serve --same-outputs --steps 400 --listen 127.0.0.1:0 --wait-for-workers 1 --resume"_w +
            checkpoints_in(kept).back());
  EXPECT_NE(none.code(), 0);
  EXPECT_THAT(none.err(), StartsWith("resuming from ")) << "it was not refused, and nobody came";
  EXPECT_EQ(written(), before) << none.err();
}

TEST_F(RefusedCheckpoints, RefuseWhatCannotBeKept) {
  expect_error(resume, "cannot be read: No such file");
  expect_error(train("--checkpoint-every 5"_w), "--checkpoint");
  for (const char* every : {"0", "5 min", "-1", "min", "1e3", "99999999min", "18446744073709551616"})
    expect_error(train("--checkpoint"_w + kept + "--checkpoint-every"_w + every), "is no interval");
  EXPECT_FALSE(std::filesystem::exists(kept)) << "a refused run makes no folder";
}

// How a run goes on, as its user sees it: from which folder, by which command, and what is said.

/// Two working folders. The run begins in the first.
struct GoingOn : ToolTest {
  GoingOn() {
    for (const auto& each : {first, second}) std::filesystem::create_directory(each);
    std::filesystem::copy_file(MAILGRAD_SMALL_CSV, first / "small.csv");
  }

  static words train(const words& more, const char* steps = "200", const char* kept = "kept") {
    return "train --model mlp:hidden=5 --data small.csv --batch 4 --quiet --steps"_w + steps +
           "--checkpoint"_w + kept + more;
  }
  /// The tool, in that working folder.
  static tool in(const std::filesystem::path& where, const words& given) {
    return tool("-C"_w + where + MAILGRAD_TOOL + given, nullptr, {}, "env");
  }
  /// What it says there on standard error, when it has ended well.
  static std::string done_in(const std::filesystem::path& where, const words& given) {
    tool t = in(where, given);
    EXPECT_EQ(t.code(), 0) << t.err();
    return t.err();
  }
  words longer(const std::string& steps, const words& more = {}) const {
    return "train --quiet --same-outputs --resume"_w + (first / "kept") + "--steps"_w + steps + more;
  }

  const std::filesystem::path first = folder.path() / "first", second = folder.path() / "second";
};

/// Whoever made a checkpoint does not say where others write.
TEST_F(GoingOn, WritesOnlyWhatIsNamedOrAskedFor) {
  done_in(first, train("--report run.json --save w.safetensors --record run.rec"_w));
  for (const char* name : {"run.json", "w.safetensors", "run.rec"}) std::filesystem::remove(first / name);
  EXPECT_THAT(done_in(first, "train --quiet --resume kept --steps 300 --save other.safetensors"_w),
              HasSubstr("; without --report=run.json, --record=run.rec, which --same-outputs would write\n"));
  for (const char* name : {"run.json", "w.safetensors", "run.rec"})
    EXPECT_FALSE(std::filesystem::exists(first / name)) << name;
  EXPECT_TRUE(std::filesystem::exists(first / "other.safetensors"));
  expect_error("train --same-outputs --model mlp"_w, "--resume");
}

TEST_F(GoingOn, FindsThePathsThatWereTypedInAnotherFolder) {
  done_in(first, train("--metrics run.jsonl"_w));
  EXPECT_THAT(done_in(second, longer("300", "--save w.safetensors"_w)),
              HasSubstr(" of --data, --metrics are those of " + first.string() + "\n"));
  EXPECT_TRUE(std::filesystem::exists(first / "run.jsonl.old"));
  EXPECT_FALSE(std::filesystem::exists(second / "run.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(second / "w.safetensors")) << "it was typed there";
  done_in(second, longer("400"));
  EXPECT_THAT(done_in(first, longer("500")), HasSubstr(" of --save are those of " + second.string() + "\n"));
}

TEST_F(GoingOn, FindsATraceOfDelays) {
  std::ofstream(first / "times.csv") << "t,worker,duration\n0,0,0\n";
  done_in(first, train("--delays trace:times.csv"_w));
  EXPECT_THAT(done_in(second, longer("300")), HasSubstr(" of --data, --delays are those of "));
}

/// A project that was copied or moved goes on with its own files.
TEST_F(GoingOn, TakesWhatIsHereFirst) {
  done_in(first, train({}));
  std::filesystem::copy_file(first / "small.csv", second / "small.csv");
  EXPECT_THAT(done_in(second, longer("300")), Not(HasSubstr("--data")));
}

TEST_F(GoingOn, NamesThePathThatItTried) {
  done_in(first, train({}));
  std::filesystem::remove(first / "small.csv");
  tool t = in(second, longer("300"));
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), HasSubstr((first / "small.csv").string()));
}

TEST_F(GoingOn, FindsItsPlugIns) {
  const words plugins = "own_momentum.so fair_turns.so fading.so"_w;
  for (const std::string& file : plugins)
    std::filesystem::copy_file(std::filesystem::path(MAILGRAD_TEST_PLUGINS) / file, first / file);
  done_in(first, train("--optimizer ./own_momentum.so --cure ./fading.so "
                       "--policy 'async, ./fair_turns.so:1@150'"_w));
  tool none = in(second, longer("400"));
  EXPECT_EQ(none.code(), 2);
  words trusted;
  for (const std::string& file : plugins) {
    EXPECT_THAT(none.err(), HasSubstr(" --plugin " + (first / file).string()));
    trusted = trusted + "--plugin"_w + (first / file);
  }
  tool t = in(second, longer("400", trusted));
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.err(), HasSubstr("; the paths of "));
  EXPECT_THAT(t.out(), HasSubstr("completed after 400 steps"));
}

/// A resume alone would end at once.
TEST_F(GoingOn, TakesAnotherConditionIfTheRunWasTrainedEnough) {
  tool t = in(first, train("--metrics-every 1 --stop-when steps>=60"_w, "100000"));
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.out(),
              HasSubstr("\ngoes on by    mailgrad train --resume kept  # with another --stop-when\n"));
  done_in(first, "train --quiet --same-outputs --resume kept --steps 300 --stop-when steps>=1e9"_w);
  tool patient = in(first, train("--lr 0 --evaluate-every 5 --patience 2"_w, "1000000", "other"));
  EXPECT_EQ(patient.code(), 0) << patient.err();
  EXPECT_THAT(patient.out(),
              HasSubstr("\ngoes on by    mailgrad train --resume other  # with another --patience\n"));
}

TEST_F(GoingOn, SaysThatTheRateIsAtItsEnd) {
  done_in(first, train("--schedule cosine:total=200"_w));
  EXPECT_THAT(done_in(first, longer("400")),
              HasSubstr("the learning rate is 0 after 200 updates by --schedule cosine:total=200,"));
}

struct PastedCommand : GoingOn, WithParamInterface<words> {
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
    return tool({"-c", "cd '" + first.string() + "' && PATH=" + tools + ":$PATH && exec " + command}, nullptr,
                {}, "sh");
  }
};

TEST_P(PastedCommand, GoesOnWithTheRun) {
  std::filesystem::copy_file(first / "small.csv", first / "it's \"my\" $HOME data.csv");
  std::ofstream(first / "table.csv") << "who,what,label\n0,1,a\n1,2,b\n2,0,a\n0,2,b\n1,1,a\n2,2,b\n";
  std::filesystem::create_directory(first / "my ratings");
  std::ofstream(first / "my ratings/ratings.dat")
      << "1::2::5::0\n2::1::3::0\n1::3::4::0\n3::1::2::0\n2::2::1::0\n3::3::5::0\n";
  tool run = in(first, "train --batch 2 --steps 100000000 --checkpoint"_w + "kept it's" + GetParam());
  const std::string command = remedy(run);
  EXPECT_THAT(command, StartsWith("mailgrad train "));
  tool pasted = paste(command);
  EXPECT_EQ(remedy(pasted), command);
  EXPECT_THAT(pasted.err(), HasSubstr("resuming from "));
}

INSTANTIATE_TEST_SUITE_P(
    Options, PastedCommand,
    Values("--report 'a report.json' --save 'a b.safetensors' --data"_w + "it's \"my\" $HOME data.csv",
           "--data small.csv --devices cpu:0,cpu:0 --local-steps 3 --outer-optimizer momentum:momentum=0.5"_w,
           "--data small.csv --devices cpu:0,cpu:0 --shards 2 --policy ringmaster:8 --cure dc-asgd:0.04 "
           "--keep-weights best --evaluate-every 50"_w,
           "--data small.csv --devices cpu:0,cpu:0 --policy 'ssp:2, async@50' --cure dana-zero "
           "--validation 0.2 --schedule cosine:total=100000000"_w,
           "--data table.csv --categories who,what --label label --header yes --missing drop "
           "--test-fraction 0.2"_w,
           "--data 'my ratings' --model dlrm --split random --optimizer adagrad --shards 2"_w,
           "--data small.csv --processes 2 --local-steps 2 --wire bfloat16"_w,
           "--data small.csv --processes 2 --when-alone end --heartbeat 500 --record run.rec"_w));

TEST_F(GoingOn, NamesReplayForAReplay) {
  done_in(first, train("--record run.rec"_w, "200000"));
  tool replay = in(first, "replay run.rec --data ./small.csv --checkpoint replayed --checkpoint-every 100 "
                          "--quiet"_w);
  while (!std::filesystem::is_directory(first / "replayed") || checkpoints_in(first / "replayed").empty())
    if (!replay.runs()) break;
  replay.signal(SIGINT);
  if (replay.code() != 0) {
    EXPECT_THAT(replay.out(),
                HasSubstr("\ngoes on by    mailgrad replay run.rec --data=./small.csv --resume replayed\n"));
  }
  tool other = in(first, "train --quiet --same-outputs --resume replayed --steps 300000"_w);
  EXPECT_EQ(other.code(), 2);
  EXPECT_THAT(other.err(), HasAll(" is of a replay, which goes on by 'mailgrad replay RECORDING ",
                                  "--resume replayed/checkpoint-"));
}

} // namespace
} // namespace mailgrad::testing
