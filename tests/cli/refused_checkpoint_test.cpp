#include <mailgrad/tests/cli/kept_run.hpp>
#include <mailgrad/tests/support/full_disk.hpp>

#include <mailgrad/engine/checkpoint/best_weights.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

// Checkpoints that the tool refuses to go on from, or to take for something else.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using testing::tool;
using testing::words;

class RefusedCheckpoints : public testing::KeptRun {
protected:
  std::string recording() const { return (scratch_.path() / "run.rec").string(); }
};

TEST_F(RefusedCheckpoints, OfAnotherRunAreRefused) {
  report(checkpointed({}));
  const auto refused = [this](const words& more, const std::string& why) {
    words all{"train", "--same-outputs", "--resume", folder(), "--quiet"};
    all.insert(all.end(), more.begin(), more.end());
    tool t(all);
    EXPECT_EQ(t.code(), 2);
    EXPECT_THAT(t.err(), HasSubstr(why));
  };
  refused({"--seed", "5"}, "; --seed was 1, and is 5 here");
  refused({"--seed", "5", "--model", "mlp:hidden=6"}, "; --seed was 1, and is 5 here");
  const std::string other = (scratch_.path() / "other.csv").string();
  std::filesystem::copy_file(MAILGRAD_SMALL_CSV, other);
  std::ofstream(other, std::ios::app) << "1,1,1,0\n";
  refused({"--data", other}, "the training data were small.csv (SHA-256 ");
  refused({"--data", other}, ", and are other.csv (SHA-256 ");
  refused({"--model", "mlp:hidden=6"}, "the model was mlp:hidden=5 (SHA-256 ");
  refused({"--model", "mlp:hidden=6"}, ", and is mlp:hidden=6 (SHA-256 ");
  refused({"--shards", "3"}, "--shards was 1, and is 3 here");
  const auto alone = [this](const std::string& why) {
    return "checkpoint '" + newest().string() + "' is of another run: " + why + "\n";
  };
  refused({"--batch", "8"}, alone("--batch was 4, and is 8 here"));
  refused({"--optimizer", "adam:beta1=0.8"},
          alone("--optimizer was adam:beta1=0.9,beta2=0.999,epsilon=1e-8, and is "
                "adam:beta1=0.8,beta2=0.999,epsilon=1e-8 here"));
  refused({"--batch", "8", "--model", "mlp:hidden=6"}, "the model was mlp:hidden=5 (SHA-256 ");
  refused({"--policy", "hogwild"}, "--policy was async, and is hogwild here");
  refused({"--load", "weights.safetensors"}, "leave --load out");
  tool again(checkpointed({}));
  EXPECT_EQ(again.code(), 2);
  EXPECT_THAT(again.err(), HasSubstr("holds checkpoints of an earlier run"));
}

TEST_F(RefusedCheckpoints, AreNoFilesOfWeights) {
  const auto file = [&](const char* name) { return (scratch_.path() / name).string(); };
  report(train({"--checkpoint", folder(), "--save", file("w.safetensors")}, "200"));
  best_weights(folder()).offer({.steps = 200, .loss = 1}, std::vector<float>(1));
  const std::string best = (std::filesystem::path(folder()) / best_weights::file_name).string();
  const auto refused = [](const words& run, const std::string& why) {
    tool t(run);
    EXPECT_NE(t.code(), 0) << run[0];
    EXPECT_THAT(t.err(), HasSubstr(why));
  };
  for (const words& use :
       {words{"test", "--data", MAILGRAD_SMALL_CSV, "--model-file"},
        words{"predict", "--data", MAILGRAD_SMALL_CSV, "--model-file"}, with(train({}), {"--load"})}) {
    refused(with(use, {folder()}), folder() +
                                       ": expected a file of weights, found a folder of checkpoints; "
                                       "'mailgrad train --resume " +
                                       folder() + " --steps 1 --save weights.safetensors' writes");
    refused(with(use, {newest().string()}),
            newest().string() + ": expected a file of weights, found a checkp");
    refused(with(use, {best}),
            "found the best weights that a run keeps beside its checkpoints; 'mailgrad train --resume " +
                folder() + " --steps 1 --save ");
  }
  refused({"train", "--same-outputs", "--resume", file("w.safetensors")},
          "expected a checkpoint, found a file of weights; 'mailgrad train --load' begins a run with them");
  refused({"train", "--same-outputs", "--resume", best},
          "expected a checkpoint, found the best weights of a run");
  const auto before = written();
  report({"train", "--same-outputs", "--resume", newest().string(), "--steps", "1", "--save", file("out.npz"),
          "--quiet"});
  EXPECT_EQ(written().at(newest().string()), before.at(newest().string()));
  refused({"train", "--same-outputs", "--resume", file("out.npz")}, "found a file of weights");
}

/// What the first has written, the second would remove.
TEST_F(RefusedCheckpoints, AreThoseOfOneProcessAtATime) {
  tool first(train({"--checkpoint", folder(), "--checkpoint-every", "100"}, "2000000"));
  await_newer(first);
  tool second({"train", "--same-outputs", "--resume", folder(), "--quiet"});
  EXPECT_EQ(second.code(), 2);
  EXPECT_THAT(second.err(), HasSubstr(folder() + ": another run keeps its checkpoints there (process "));
  first.signal(SIGKILL);
  EXPECT_EQ(first.code(), -SIGKILL);
  const std::string steps = std::to_string(steps_named_in(folder(), newest()) + 50);
  EXPECT_EQ(resumed({"--steps", steps})["steps"], std::stoull(steps));
}

/// A run that another one keeps out has said nothing of itself and touched nothing, also if its recording is
/// gone.
TEST_F(RefusedCheckpoints, OfARunThatGoesOnAreRefusedInOneLine) {
  const std::string recording = (scratch_.path() / "run.rec").string();
  tool first(
      train({"--checkpoint", folder(), "--checkpoint-every", "100", "--record", recording}, "2000000"));
  await_newer(first);
  std::filesystem::remove(recording + ".partial");
  for (const words& more : {words{}, words{"--processes", "2"}}) {
    tool second(with({"train", "--same-outputs", "--resume", folder()}, more));
    EXPECT_EQ(second.code(), 2);
    EXPECT_THAT(second.err(), ::testing::StartsWith("mailgrad: " + folder() + ": another run keeps its "));
    EXPECT_EQ(std::ranges::count(second.err(), '\n'), 1) << second.err();
  }
}

/// Later checkpoints were set aside before the disk was asked for the room of the weights.
TEST_F(RefusedCheckpoints, OfARunThatIsRefusedAreLeftAlone) {
  for (const char* steps : {"100", "200", "300"})
    report(steps == std::string("100")
               ? train({"--checkpoint", folder(), "--record", recording()}, steps)
               : words{"train", "--same-outputs", "--resume", folder(), "--quiet", "--steps", steps});
  const auto before = written();
  const auto refused = [&](const words& more, int code, const std::string& why) {
    tool t(with(
        {"train", "--same-outputs", "--resume", checkpoints_in(folder()).back().string(), "--steps", "400"},
        more));
    EXPECT_EQ(t.code(), code);
    EXPECT_THAT(t.err(), HasSubstr(why));
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
    EXPECT_EQ(written(), before) << why;
  };
  const std::string saved = (scratch_.path() / "w.safetensors").string();
  {
    const testing::full_disk full(10'000);
    refused({"--save", saved}, 1, "weights '" + saved + "' need ");
  }
  refused({"--seed", "7"}, 2, "--seed was 1, and is 7 here");
  refused({"--metrics", "/dev/null/m"}, 2, "cannot be written");
}

TEST_F(RefusedCheckpoints, OfAServerToWhichNobodyComesAreLeftAlone) {
  const std::string metrics = (scratch_.path() / "run.jsonl").string();
  report(train({"--checkpoint", folder(), "--metrics", metrics}, "100"));
  report({"train", "--same-outputs", "--resume", folder(), "--quiet", "--steps", "200"});
  const auto before = written();
  tool none({"serve", "--same-outputs", "--resume", checkpoints_in(folder()).back().string(), "--steps",
             "400", "--listen", "127.0.0.1:0", "--wait-for-workers", "1"});
  EXPECT_NE(none.code(), 0);
  EXPECT_THAT(none.err(), ::testing::StartsWith("resuming from ")) << "it was not refused, and nobody came";
  EXPECT_EQ(written(), before) << none.err();
}

TEST_F(RefusedCheckpoints, RefuseWhatCannotBeKept) {
  const auto refused = [](const words& run, const std::string& why) {
    tool t(run);
    EXPECT_EQ(t.code(), 2) << why;
    EXPECT_THAT(t.err(), HasSubstr(why));
  };
  refused({"train", "--same-outputs", "--resume", folder()}, "cannot be read: No such file");
  refused(train({"--checkpoint-every", "5"}), "--checkpoint");
  for (const char* every : {"0", "5 min", "-1", "min", "1e3", "99999999min", "18446744073709551616"})
    refused(train({"--checkpoint", folder(), "--checkpoint-every", every}), "is no interval");
  EXPECT_FALSE(std::filesystem::exists(folder())) << "a refused run makes no folder";
}

} // namespace
} // namespace mailgrad
