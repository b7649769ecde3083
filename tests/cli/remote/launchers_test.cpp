#include <mailgrad/tests/cli/remote/launched_run.hpp>

#include <mailgrad/engine/weights/weights_file.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

// `mailgrad launch` by real launchers, where they are installed (scripts/install-dependencies --cluster).

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using testing::joined;
using testing::launch_text;
using ::testing::Not;
using testing::tool;

bool installed(const std::string& program) {
  return std::system(("PATH=$PATH:/usr/sbin command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

/// Open MPI's, and not another mpirun.
bool has_open_mpi() { return std::system("mpirun --version 2>/dev/null | grep -q 'Open MPI'") == 0; }

launch_text by_mpirun(const std::string& ranks, const launch_text& options, const launch_text& words) {
  const launch_text begin{"--allow-run-as-root", "--oversubscribe", "-n", ranks};
  return joined(joined(joined(begin, options), {MAILGRAD_TOOL}), words);
}

struct Launchers : testing::launched_run {};

TEST_F(Launchers, OpenMpiTrainsToTheSameWeightsAsOneProcess) {
  if (!has_open_mpi()) GTEST_SKIP() << "no mpirun of Open MPI here";
  tool run(by_mpirun("4", {"--bind-to", "none"}, launch({"--report", file("there")})), nullptr, {}, "mpirun");
  EXPECT_EQ(run.code(), 0) << run.err();
  EXPECT_THAT(run.err(), Not(HasSubstr("is bound to")));
  EXPECT_EQ(report("there")["parameters_sha256"], weights_of_one_process("cpu:0,cpu:0,cpu:0"));
  expect_files(2);
}

TEST_F(Launchers, OpenMpiEndsARunByASignalWithItsReport) {
  if (!has_open_mpi()) GTEST_SKIP() << "no mpirun of Open MPI here";
  tool run(by_mpirun("3", {"--bind-to", "none"}, launch({"--epochs", "1000000", "--report", file("report")})),
           nullptr, {}, "mpirun");
  ASSERT_TRUE(run.says("worker 0 has joined") && run.says("worker 1 has joined")) << run.err();
  run.signal(SIGINT);
  EXPECT_NE(run.code(), 0);
  EXPECT_EQ(report("report")["why"], "stopped by SIGTERM") << run.err();
  expect_files(1);
}

TEST_F(Launchers, OpenMpiThatBindsARankToACoreIsTold) {
  if (!has_open_mpi()) GTEST_SKIP() << "no mpirun of Open MPI here";
  tool probe({"--allow-run-as-root", "-n", "2", "sh", "-c", "test $(nproc) -lt $(nproc --all)"}, nullptr, {},
             "mpirun");
  if (probe.code() != 0) GTEST_SKIP() << "mpirun does not bind its ranks here";
  tool run(by_mpirun("2", {}, launch()), nullptr, {}, "mpirun");
  EXPECT_EQ(run.code(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("cores, and the ranks are so by mpirun: '--bind-to none'"));
}

/// Why --transport mpi cannot be tried here; empty if it can.
std::string lacks_mpi() {
#ifdef __SANITIZE_ADDRESS__
  return "the libraries of MPI leak at their end, for which AddressSanitizer fails the process";
#endif
  if (!has_open_mpi()) return "no mpirun of Open MPI here";
  return std::filesystem::exists(MAILGRAD_MPI_LIBRARY) ? "" : "built without MPI";
}

TEST_F(Launchers, OverMpiRanksTrainToTheSameWeightsAsOneProcess) {
  if (const std::string why = lacks_mpi(); !why.empty()) GTEST_SKIP() << why;
  for (const char* model : {"softmax", "mlp:hidden=5", "mlp:hidden=7x4"}) {
    const launch_text more{"--transport", "mpi", "--report", file("there")};
    tool run(by_mpirun("3", {"--bind-to", "none"}, launch(more, model)), nullptr, {}, "mpirun");
    EXPECT_EQ(run.code(), 0) << run.err();
    EXPECT_THAT(run.err(), HasSubstr("listening on mpi:0 for 2 workers; for ranks of this launcher"));
    EXPECT_EQ(report("there")["parameters_sha256"], weights_of_one_process("cpu:0,cpu:0", model)) << model;
    expect_files(2);
  }
}

/// Runs whose ranks add their gradients up. 13 batches are not the same number for each of two or three.
struct LaunchersThatSum : testing::launched_run {
  void SetUp() override {
    if (const std::string why = lacks_mpi(); !why.empty()) GTEST_SKIP() << why;
  }
  tool launched(const std::string& ranks, const launch_text& more) const {
    const launch_text sums{"--transport", "mpi", "--all-reduce"};
    return tool(by_mpirun(ranks, {"--bind-to", "none"}, launch(joined(sums, more))), nullptr, {}, "mpirun");
  }
  launch_text uneven(const std::string& name) const {
    return {"--steps", "13", "--report", file(name), "--save", file(name + ".safetensors")};
  }
  void train_without(const std::string& devices) const {
    launch_text words = joined(launch(uneven("here")), {"--devices", devices});
    words.front() = "train";
    words.erase(words.begin() + 1, words.begin() + 3); // --rendezvous
    tool here(words);
    ASSERT_EQ(here.code(), 0) << here.err();
  }
  std::vector<float> weights(const std::string& name) const {
    std::vector<float> all;
    for (const auto& v : load_weights(file(name + ".safetensors")).variables) {
      const auto values = v.values.values<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
};

TEST_F(LaunchersThatSum, TrainToTheWeightsAndTheLedgerOfARunWithoutSums) {
  for (const auto& [ranks, devices] : {std::pair{"3", "cpu:0,cpu:0"}, {"4", "cpu:0,cpu:0,cpu:0"}}) {
    tool run = launched(ranks, uneven("there"));
    EXPECT_EQ(run.code(), 0) << run.err();
    train_without(devices);
    const std::vector<float> got = weights("there"), want = weights("here");
    ASSERT_EQ(got.size(), want.size());
    float scale = 0;
    for (const float w : want) scale = std::max(scale, std::abs(w));
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-6 * scale) << "weight " << i;
    for (const char* same : {"ledger", "staleness", "steps"})
      EXPECT_EQ(report("there")[same], report("here")[same]) << same << " of " << ranks << " ranks";
  }
}

TEST_F(LaunchersThatSum, EndByASignalWithTheirReport) {
  tool run = launched("4", {"--epochs", "1000000", "--report", file("report")});
  ASSERT_TRUE(run.says("worker 0 has joined") && run.says("worker 2 has joined")) << run.err();
  run.signal(SIGINT);
  EXPECT_NE(run.code(), 0);
  EXPECT_EQ(report("report")["why"], "stopped by SIGTERM") << run.err();
}

TEST_F(LaunchersThatSum, EndWhenTheLossIsNotFinite) {
  tool run = launched("3", {"--lr", "1e30", "--epochs", "1000", "--report", file("report")});
  EXPECT_NE(run.code(), 0);
  EXPECT_EQ(report("report")["ended"], "diverged") << run.err();
}

TEST_F(LaunchersThatSum, EndEarlyWhenAConditionHolds) {
  tool run = launched("4", {"--epochs", "1000000", "--stop-when", "steps>=40", "--report", file("report")});
  EXPECT_EQ(run.code(), 0) << run.err();
}

TEST_F(LaunchersThatSum, RefuseOnEveryRankWhatSumsCannotBe) {
  tool run = launched("3", {"--local-steps", "2"});
  EXPECT_EQ(run.code(), 2) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("all-reduce: expected no local steps"));
  EXPECT_THAT(run.err(), Not(HasSubstr("listening on")));
}

TEST_F(Launchers, OverMpiARunEndsByASignalWithItsReport) {
  if (const std::string why = lacks_mpi(); !why.empty()) GTEST_SKIP() << why;
  const launch_text more{"--transport", "mpi", "--epochs", "1000000", "--report", file("report")};
  tool run(by_mpirun("3", {"--bind-to", "none"}, launch(more)), nullptr, {}, "mpirun");
  ASSERT_TRUE(run.says("worker 0 has joined") && run.says("worker 1 has joined")) << run.err();
  run.signal(SIGINT);
  EXPECT_NE(run.code(), 0);
  EXPECT_EQ(report("report")["why"], "stopped by SIGTERM") << run.err();
  expect_files(1);
}

TEST_F(Launchers, OverMpiEveryRankRefusesWhatOneRefuses) {
  if (const std::string why = lacks_mpi(); !why.empty()) GTEST_SKIP() << why;
  const launch_text more{"--transport", "mpi", "--wire", "nonsense"};
  tool run(by_mpirun("3", {"--bind-to", "none"}, launch(more)), nullptr, {}, "mpirun");
  EXPECT_EQ(run.code(), 2) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("nonsense"));
}

TEST_F(Launchers, OverMpiARankThatFailsEndsTheOthers) {
  if (const std::string why = lacks_mpi(); !why.empty()) GTEST_SKIP() << why;
  const launch_text more{"--transport", "mpi", "--report", file("no/such/folder/report")};
  tool run(by_mpirun("2", {"--bind-to", "none"}, launch(more)), nullptr, {}, "mpirun");
  EXPECT_NE(run.code(), 0);
  EXPECT_THAT(run.err(), HasSubstr("no/such/folder"));
}

TEST_F(Launchers, SlurmTrainsOnTwoNodesToTheSameWeightsAsOneProcess) {
  for (const char* program : {"srun", "slurmctld", "slurmd", "munged"})
    if (!installed(program)) GTEST_SKIP() << "no " << program << " here";
  launch_text words = launch({"--report", file("there")});
  words.front() = MAILGRAD_TOOL; // the script says launch by itself
  tool run(words, nullptr, {}, MAILGRAD_SLURM_DEMO);
  if (run.code() == 77) GTEST_SKIP() << run.err();
  EXPECT_EQ(run.code(), 0) << run.err();
  EXPECT_EQ(report("there")["parameters_sha256"], weights_of_one_process("cpu:0,cpu:0,cpu:0"));
  expect_files(2);
}

} // namespace
} // namespace mailgrad
