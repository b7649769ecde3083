#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/tensor/device.hpp>

#include <cmath>

// `mailgrad launch`: with processes whose variables are set as launchers set them, so that no launcher has to
// be there, and by real launchers, where they are installed (scripts/install-dependencies --cluster).

namespace mailgrad::testing {
namespace {

/// A folder by which ranks find each other, and in which rank 0 leaves its report.
struct LaunchedRun : RemoteTool {
  /// Variables of a launcher that runs these tests are none of theirs.
  LaunchedRun() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "SLURM_STEP_ID"})
      unsetenv(name);
  }

  static words run(const std::string& model) {
    return "--batch 4 --optimizer momentum --seed 3 --policy sync --data"_w + MAILGRAD_SMALL_CSV + "--model" +
           model;
  }
  /// The command line of each rank.
  words launch(const words& more = {}, const std::string& model = "mlp:hidden=5") const {
    return "launch --rendezvous"_w + folder.path() + run(model) + more;
  }
  /// The digest of the weights that one process makes of the same with so many workers.
  json weights_of_one_process(const std::string& devices, const std::string& model = "mlp:hidden=5") const {
    done("train --devices"_w + devices + "--report" + path("here") + run(model));
    return report("here")["parameters_sha256"];
  }
  /// Nothing but these files lies in the folder.
  void expect_files(std::ptrdiff_t count) const {
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), count);
  }
};

struct Launch : LaunchedRun {
  /// A rank as mpirun starts it.
  static std::unique_ptr<tool> rank(const std::string& number, const std::string& size, const words& given) {
    const variables set({{"OMPI_COMM_WORLD_RANK", number},
                         {"OMPI_COMM_WORLD_SIZE", size},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", size},
                         {"PMIX_NAMESPACE", "77"}});
    return std::make_unique<tool>(given);
  }
  /// One of two ranks on two hosts, as srun starts it.
  static std::unique_ptr<tool> task(const std::string& number, const words& given) {
    const variables set({{"SLURM_PROCID", number},
                         {"SLURM_NTASKS", "2"},
                         {"SLURM_JOB_ID", "9"},
                         {"SLURM_STEP_ID", "1"},
                         {"SLURM_STEP_NUM_NODES", "2"},
                         {"SLURM_STEP_NODELIST", "n[1-2]"}});
    return std::make_unique<tool>(given);
  }
};

TEST_F(Launch, TrainsToTheSameWeightsAsOneProcess) {
  const words given = launch({"--report", path("there")});
  const auto last = rank("2", "3", given); // they may start in any order
  const auto server = rank("0", "3", given), first = rank("1", "3", given);
  expect_ended({server.get(), first.get(), last.get()});
  EXPECT_THAT(server->err(), HasSubstr("for 2 workers; without --keys for processes of this machine alone; "
                                       "other ranks find it by " +
                                       path("mailgrad-mpirun-77.address")));
  EXPECT_EQ(report("there")["parameters_sha256"], weights_of_one_process("cpu:0,cpu:0"));
  expect_files(2);
}

TEST_F(Launch, RefusesWordsThatMpiHasNoUseFor) {
  for (const auto& [more, why] :
       {std::pair{"--transport mpi --keys run-keys"_w, "--keys: expected none with --transport mpi"},
        {"--transport mpi --listen 127.0.0.1:7000"_w, "--listen: expected none with --transport mpi"},
        {"--transport smoke"_w, ""}}) {
    const auto refused = rank("1", "2", launch(more));
    EXPECT_EQ(refused->code(), 2);
    EXPECT_THAT(refused->err(), HasSubstr(why));
  }
}

TEST_F(Launch, FindsTheServerWhereListenSays) {
  tool first("serve --listen 127.0.0.1:0 --batch 4 --data"_w +
             MAILGRAD_SMALL_CSV); // finds a port that is free
  ASSERT_TRUE(first.says(" for 1 worker"));
  const std::string address = address_of(first);
  first.signal(SIGKILL);
  first.code();
  const words given = launch({"--listen", address, "--report", path("there")});
  const auto worker = rank("1", "2", given), server = rank("0", "2", given);
  expect_ended({server.get(), worker.get()});
  expect_files(1);
}

TEST_F(Launch, TakesNoAddressOfARunThatWasKilled) {
  folder.write("mailgrad-mpirun-77.address", "127.0.0.1:1\n");
  const auto server = rank("0", "2", launch());
  ASSERT_TRUE(server->says("other ranks find it by")) << server->err();
  const auto worker = rank("1", "2", launch());
  expect_ended({server.get(), worker.get()});
}

TEST_F(Launch, ClearsTheAddressOfARunThatWasKilledBeforeItReadsData) {
  folder.write("mailgrad-mpirun-77.address", "127.0.0.1:1\n");
  const auto server = rank("0", "2", launch({"--load", path("absent")}));
  expect_ended({server.get()}, 2);
  expect_files(0);
}

TEST_F(Launch, EndsInGoodOrderBySignalsToAllRanks) {
  const words given = launch("--epochs 1000000 --report"_w + path("report"));
  const auto server = rank("0", "3", given), first = rank("1", "3", given), second = rank("2", "3", given);
  ASSERT_TRUE(server->says("worker 0 has joined") && server->says("worker 1 has joined")) << server->err();
  for (const auto* each : {&first, &second, &server}) (*each)->signal(SIGTERM);
  expect_ended({server.get()}, 128 + SIGTERM);
  expect_ended({first.get(), second.get()}); // or else mpirun would kill the server
  EXPECT_EQ(report("report")["ended"], "stopped");
  EXPECT_EQ(report("report")["why"], "stopped by SIGTERM");
  expect_files(1);
}

TEST_F(Launch, GivesEachWorkerAllDevicesIfItsModelSpansThem) {
  if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  const words given = launch("--pipeline --devices cpu:0,cpu:1 --report"_w + path("report"));
  const auto server = rank("0", "3", given), first = rank("1", "3", given), second = rank("2", "3", given);
  expect_ended({server.get(), first.get(), second.get()});
  EXPECT_THAT(server->err(), HasSubstr("2 workers of other processes, each on 2 devices"));
  EXPECT_EQ(report("report")["stages"].size(), 4U);
}

TEST_F(Launch, EncryptsAcrossHostsByKeysAlone) {
  const auto plain = task("1", launch());
  expect_ended({plain.get()}, 2);
  EXPECT_THAT(plain->err(), HasSubstr("expected --keys for ranks on several hosts (n[1-2]), found none"));
  done({"keys", "new", path("keys")});
  const words given = launch({"--keys", path("keys")});
  const auto server = task("0", given), worker = task("1", given);
  expect_ended({server.get(), worker.get()});
  EXPECT_THAT(server->err(), HasSubstr("listening on 0.0.0.0:"));
  expect_files(1);
}

TEST_F(Launch, GivesUpInOneLineWhenRanksDoNotMeet) {
  const words given = launch("--meet-within 1"_w);
  const auto worker = rank("1", "3", given);
  expect_ended({worker.get()}, 1);
  EXPECT_THAT(worker->err(), HasSubstr("rank 1 of 3: expected the address of rank 0 in " +
                                       path("mailgrad-mpirun-77.address within 1 s")));
  const auto server = rank("0", "3", given);
  expect_ended({server.get()}, 1);
  EXPECT_THAT(server->err(), HasSubstr("rank 0 of 3: expected 2 workers within 1 s, found 0"));
  expect_files(0);
}

TEST_F(Launch, ResumesFromItsCheckpoints) {
  const auto run_all = [](const words& given) {
    const auto server = rank("0", "3", given), first = rank("1", "3", given), second = rank("2", "3", given);
    expect_ended({server.get()});
    return server->err();
  };
  run_all(launch("--checkpoint-every 4 --checkpoint"_w + path("kept")));
  EXPECT_THAT(run_all("launch --epochs 2 --rendezvous"_w + folder.path() + "--resume" + path("kept")),
              HasAll("resuming from", "sync on 2 workers of other processes"));
}

/// Ranks read from their command line alone how they meet.
TEST_F(Launch, SaysByWhichCommandItGoesOn) {
  words given = launch("--epochs 100000000 --wire bfloat16 --checkpoint"_w + path("kept"));
  const std::string meet = "--rendezvous=" + folder.path().string();
  for (int round = 0; round < 2; ++round) {
    const auto server = rank("0", "2", given), worker = rank("1", "2", given);
    ASSERT_TRUE(server->says(", loss ")) << server->err();
    for (const auto* each : {&worker, &server}) (*each)->signal(SIGTERM);
    expect_ended({server.get()}, 128 + SIGTERM);
    EXPECT_THAT(server->out(), HasSubstr("\ngoes on by    mpirun -n 2 mailgrad launch " + meet +
                                         " --wire=bfloat16 --resume " + path("kept") + "\n"));
    given = {"launch", meet, "--wire=bfloat16", "--resume", path("kept")};
  }
}

TEST_F(Launch, RefusesInOneLineWhatIsNoRun) {
  expect_error(launch(), "run: mpirun -n 4 mailgrad launch");
  for (const auto& [more, why] :
       {std::pair{"--workers 3"_w, "--workers 3: mpirun starts 2 ranks, so there are 1; leave it out"},
        {"--policy hogwild"_w, "--policy hogwild"},
        {"--listen 10.1.2.3.4:7"_w, "10.1.2.3.4"},
        {"--meet-within 0"_w, "--meet-within"}})
    for (const char* number : {"0", "1"}) { // no rank waits for another that has refused
      const auto t = rank(number, "2", "launch --data"_w + MAILGRAD_SMALL_CSV + more);
      expect_ended({t.get()}, 2);
      EXPECT_THAT(t->err(), HasSubstr(why));
    }
}

bool installed(const std::string& program) {
  return std::system(("PATH=$PATH:/usr/sbin command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

/// Open MPI's, and not another mpirun.
bool has_open_mpi() { return std::system("mpirun --version 2>/dev/null | grep -q 'Open MPI'") == 0; }

/// Why --transport mpi cannot be tried here; empty if it can.
std::string lacks_mpi() {
#ifdef __SANITIZE_ADDRESS__
  return "the libraries of MPI leak at their end, for which AddressSanitizer fails the process";
#endif
  if (!has_open_mpi()) return "no mpirun of Open MPI here";
  return std::filesystem::exists(MAILGRAD_MPI_LIBRARY) ? "" : "built without MPI";
}

struct Launchers : LaunchedRun {
  static tool mpirun(const std::string& ranks, const words& given,
                     const words& options = "--bind-to none"_w) {
    return tool("--allow-run-as-root --oversubscribe -n"_w + ranks + options + MAILGRAD_TOOL + given, nullptr,
                {}, "mpirun");
  }
  words over_mpi(const words& more, const std::string& model = "mlp:hidden=5") const {
    return launch("--transport mpi"_w + more, model);
  }
  /// mpirun gets SIGINT when these workers have joined, and ends its ranks by SIGTERM.
  void expect_end_by_signal(tool& run, const std::string& last_worker) const {
    ASSERT_TRUE(run.says("worker 0 has joined") && run.says("worker " + last_worker + " has joined"))
        << run.err();
    run.signal(SIGINT);
    EXPECT_NE(run.code(), 0);
    EXPECT_EQ(report("report")["why"], "stopped by SIGTERM") << run.err();
  }
};

TEST_F(Launchers, OpenMpiTrainsToTheSameWeightsAsOneProcess) {
  if (!has_open_mpi()) GTEST_SKIP() << "no mpirun of Open MPI here";
  tool run = mpirun("4", launch({"--report", path("there")}));
  expect_ended({&run});
  EXPECT_THAT(run.err(), Not(HasSubstr("is bound to")));
  EXPECT_EQ(report("there")["parameters_sha256"], weights_of_one_process("cpu:0,cpu:0,cpu:0"));
  expect_files(2);
}

TEST_F(Launchers, OpenMpiEndsARunByASignalWithItsReport) {
  if (!has_open_mpi()) GTEST_SKIP() << "no mpirun of Open MPI here";
  tool run = mpirun("3", launch("--epochs 1000000 --report"_w + path("report")));
  expect_end_by_signal(run, "1");
  expect_files(1);
}

TEST_F(Launchers, OpenMpiThatBindsARankToACoreIsTold) {
  if (!has_open_mpi()) GTEST_SKIP() << "no mpirun of Open MPI here";
  tool probe("--allow-run-as-root -n 2 sh -c 'test $(nproc) -lt $(nproc --all)'"_w, nullptr, {}, "mpirun");
  if (probe.code() != 0) GTEST_SKIP() << "mpirun does not bind its ranks here";
  tool run = mpirun("2", launch(), {});
  expect_ended({&run});
  EXPECT_THAT(run.err(), HasSubstr("cores, and the ranks are so by mpirun: '--bind-to none'"));
}

TEST_F(Launchers, OverMpiRanksTrainToTheSameWeightsAsOneProcess) {
  if (const std::string why = lacks_mpi(); !why.empty()) GTEST_SKIP() << why;
  for (const char* model : {"softmax", "mlp:hidden=5", "mlp:hidden=7x4"}) {
    tool run = mpirun("3", over_mpi({"--report", path("there")}, model));
    expect_ended({&run});
    EXPECT_THAT(run.err(), HasSubstr("listening on mpi:0 for 2 workers; for ranks of this launcher"));
    EXPECT_EQ(report("there")["parameters_sha256"], weights_of_one_process("cpu:0,cpu:0", model)) << model;
    expect_files(2);
  }
}

TEST_F(Launchers, OverMpiARunEndsByASignalWithItsReport) {
  if (const std::string why = lacks_mpi(); !why.empty()) GTEST_SKIP() << why;
  tool run = mpirun("3", over_mpi("--epochs 1000000 --report"_w + path("report")));
  expect_end_by_signal(run, "1");
  expect_files(1);
}

TEST_F(Launchers, OverMpiEveryRankRefusesWhatOneRefuses) {
  if (const std::string why = lacks_mpi(); !why.empty()) GTEST_SKIP() << why;
  tool run = mpirun("3", over_mpi("--wire nonsense"_w));
  expect_ended({&run}, 2);
  EXPECT_THAT(run.err(), HasSubstr("nonsense"));
}

TEST_F(Launchers, OverMpiARankThatFailsEndsTheOthers) {
  if (const std::string why = lacks_mpi(); !why.empty()) GTEST_SKIP() << why;
  tool run = mpirun("2", over_mpi({"--report", path("no/such/folder/report")}));
  EXPECT_NE(run.code(), 0);
  EXPECT_THAT(run.err(), HasSubstr("no/such/folder"));
}

TEST_F(Launchers, SlurmTrainsOnTwoNodesToTheSameWeightsAsOneProcess) {
  for (const char* program : {"srun", "slurmctld", "slurmd", "munged"})
    if (!installed(program)) GTEST_SKIP() << "no " << program << " here";
  words given = launch({"--report", path("there")});
  given.front() = MAILGRAD_TOOL; // the script says launch by itself
  tool run(given, nullptr, {}, MAILGRAD_SLURM_DEMO);
  if (run.code() == 77) GTEST_SKIP() << run.err();
  expect_ended({&run});
  EXPECT_EQ(report("there")["parameters_sha256"], weights_of_one_process("cpu:0,cpu:0,cpu:0"));
  expect_files(2);
}

/// Runs whose ranks add their gradients up. 13 batches are not the same number for each of two or three.
struct LaunchersThatSum : Launchers {
  void SetUp() override {
    if (const std::string why = lacks_mpi(); !why.empty()) GTEST_SKIP() << why;
  }
  tool launched(const std::string& ranks, const words& more) const {
    return mpirun(ranks, over_mpi("--all-reduce"_w + more));
  }
  words uneven(const std::string& name) const {
    return "--steps 13 --report"_w + path(name) + "--save" + path(name + ".safetensors");
  }
  std::vector<float> weights(const std::string& name) const {
    std::vector<float> all;
    for (const auto& v : load_weights(path(name + ".safetensors")).variables) {
      const auto values = v.values.values<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
};

TEST_F(LaunchersThatSum, TrainToTheWeightsAndTheLedgerOfARunWithoutSums) {
  for (const auto& [ranks, devices] : {std::pair{"3", "cpu:0,cpu:0"}, {"4", "cpu:0,cpu:0,cpu:0"}}) {
    tool sums = launched(ranks, uneven("there"));
    expect_ended({&sums});
    done("train --devices"_w + devices + run("mlp:hidden=5") + uneven("here"));
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
  tool sums = launched("4", "--epochs 1000000 --report"_w + path("report"));
  expect_end_by_signal(sums, "2");
}

TEST_F(LaunchersThatSum, EndWhenTheLossIsNotFinite) {
  tool sums = launched("3", "--lr 1e30 --epochs 1000 --report"_w + path("report"));
  EXPECT_NE(sums.code(), 0);
  EXPECT_EQ(report("report")["ended"], "diverged") << sums.err();
}

TEST_F(LaunchersThatSum, EndEarlyWhenAConditionHolds) {
  tool sums = launched("4", "--epochs 1000000 --stop-when steps>=40 --report"_w + path("report"));
  expect_ended({&sums});
}

TEST_F(LaunchersThatSum, RefuseOnEveryRankWhatSumsCannotBe) {
  tool sums = launched("3", "--local-steps 2"_w);
  expect_ended({&sums}, 2);
  EXPECT_THAT(sums.err(),
              AllOf(HasSubstr("all-reduce: expected no local steps"), Not(HasSubstr("listening on"))));
}

/// The script by which a user sees a cluster on one machine.
TEST(ClusterDemo, GoesOnWithoutAKilledWorkerAndTakesANewOne) {
  tool demo(words{MAILGRAD_TOOL} + "--model mlp:hidden=5 --batch 4 --data"_w + MAILGRAD_SMALL_CSV, nullptr,
            {}, MAILGRAD_CLUSTER_DEMO);
  EXPECT_EQ(demo.code(), 0) << demo.err();
  EXPECT_THAT(demo.out(), AllOf(ContainsRegex("holds shards 0, 1 for workers"),
                                ContainsRegex("lost worker [01] .incarnation 1."),
                                ContainsRegex("worker [01] .incarnation 2. has joined"),
                                ContainsRegex("running after"), ContainsRegex("gradients +[0-9]+ produced")));
  EXPECT_THAT(demo.err(), IsEmpty());
}

} // namespace
} // namespace mailgrad::testing
