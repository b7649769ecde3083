#include <mailgrad/tests/cli/remote/launched_run.hpp>

#include <mailgrad/tensor/device.hpp>

#include <gmock/gmock.h>

#include <memory>
#include <string>

// `mailgrad launch` with processes whose variables are set as launchers set them, so that no launcher has to
// be there.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::joined;
using testing::launch_text;
using testing::tool;
using testing::variables;

struct Launch : testing::launched_run {
  std::unique_ptr<tool> rank(const std::string& number, const std::string& size,
                             const launch_text& words) const {
    const variables set({{"OMPI_COMM_WORLD_RANK", number},
                         {"OMPI_COMM_WORLD_SIZE", size},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", size},
                         {"PMIX_NAMESPACE", "77"}});
    return std::make_unique<tool>(words);
  }
  static std::unique_ptr<tool> task(const std::string& number, const launch_text& words) {
    const variables set({{"SLURM_PROCID", number},
                         {"SLURM_NTASKS", "2"},
                         {"SLURM_JOB_ID", "9"},
                         {"SLURM_STEP_ID", "1"},
                         {"SLURM_STEP_NUM_NODES", "2"},
                         {"SLURM_STEP_NODELIST", "n[1-2]"}});
    return std::make_unique<tool>(words);
  }
};

TEST_F(Launch, TrainsToTheSameWeightsAsOneProcess) {
  const launch_text words = launch({"--report", file("there")});
  const auto last = rank("2", "3", words); // they may start in any order
  const auto server = rank("0", "3", words);
  const auto first = rank("1", "3", words);
  EXPECT_EQ(server->code(), 0) << server->err();
  EXPECT_EQ(first->code(), 0) << first->err();
  EXPECT_EQ(last->code(), 0) << last->err();
  EXPECT_THAT(server->err(), HasSubstr("for 2 workers; without --keys for processes of this machine alone; "
                                       "other ranks find it by " +
                                       file("mailgrad-mpirun-77.address")));
  EXPECT_EQ(report("there")["parameters_sha256"], weights_of_one_process("cpu:0,cpu:0"));
  expect_files(2);
}

TEST_F(Launch, RefusesWordsThatMpiHasNoUseFor) {
  const auto keys = rank("1", "2", launch({"--transport", "mpi", "--keys", "run-keys"}));
  EXPECT_EQ(keys->code(), 2);
  EXPECT_THAT(keys->err(), HasSubstr("--keys: expected none with --transport mpi"));
  const auto listen = rank("1", "2", launch({"--transport", "mpi", "--listen", "127.0.0.1:7000"}));
  EXPECT_EQ(listen->code(), 2);
  EXPECT_THAT(listen->err(), HasSubstr("--listen: expected none with --transport mpi"));
  const auto other = rank("1", "2", launch({"--transport", "smoke"}));
  EXPECT_EQ(other->code(), 2);
}

TEST_F(Launch, FindsTheServerWhereListenSays) {
  tool first({"serve", "--listen", "127.0.0.1:0", "--data", MAILGRAD_SMALL_CSV, "--batch",
              "4"}); // finds a port that is free
  ASSERT_TRUE(first.says(" for 1 worker"));
  const std::size_t begin = first.said().find("127.0.0.1:");
  const std::string address = first.said().substr(begin, first.said().find(' ', begin) - begin);
  first.signal(SIGKILL);
  first.code();
  const launch_text words = launch({"--listen", address, "--report", file("there")});
  const auto worker = rank("1", "2", words);
  const auto server = rank("0", "2", words);
  EXPECT_EQ(server->code(), 0) << server->err();
  EXPECT_EQ(worker->code(), 0) << worker->err();
  expect_files(1);
}

TEST_F(Launch, TakesNoAddressOfARunThatWasKilled) {
  folder.write("mailgrad-mpirun-77.address", "127.0.0.1:1\n");
  const auto server = rank("0", "2", launch());
  ASSERT_TRUE(server->says("other ranks find it by")) << server->err();
  const auto worker = rank("1", "2", launch());
  EXPECT_EQ(server->code(), 0) << server->err();
  EXPECT_EQ(worker->code(), 0) << worker->err();
}

TEST_F(Launch, ClearsTheAddressOfARunThatWasKilledBeforeItReadsData) {
  folder.write("mailgrad-mpirun-77.address", "127.0.0.1:1\n");
  const auto server = rank("0", "2", joined(launch(), {"--load", file("absent")}));
  EXPECT_EQ(server->code(), 2) << server->err();
  expect_files(0);
}

TEST_F(Launch, EndsInGoodOrderBySignalsToAllRanks) {
  const launch_text words = launch({"--epochs", "1000000", "--report", file("report")});
  const auto server = rank("0", "3", words);
  const auto first = rank("1", "3", words);
  const auto second = rank("2", "3", words);
  ASSERT_TRUE(server->says("worker 0 has joined") && server->says("worker 1 has joined")) << server->err();
  for (const auto* each : {&first, &second, &server}) (*each)->signal(SIGTERM);
  EXPECT_EQ(server->code(), 128 + SIGTERM) << server->err();
  EXPECT_EQ(first->code(), 0) << first->err(); // or else mpirun would kill the server
  EXPECT_EQ(second->code(), 0) << second->err();
  EXPECT_EQ(report("report")["ended"], "stopped");
  EXPECT_EQ(report("report")["why"], "stopped by SIGTERM");
  expect_files(1);
}

TEST_F(Launch, GivesEachWorkerAllDevicesIfItsModelSpansThem) {
  if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  const launch_text words = launch({"--pipeline", "--devices", "cpu:0,cpu:1", "--report", file("report")});
  const auto server = rank("0", "3", words);
  const auto first = rank("1", "3", words);
  const auto second = rank("2", "3", words);
  EXPECT_EQ(server->code(), 0) << server->err();
  EXPECT_THAT(server->err(), HasSubstr("2 workers of other processes, each on 2 devices"));
  EXPECT_EQ(first->code(), 0) << first->err();
  EXPECT_EQ(second->code(), 0) << second->err();
  EXPECT_EQ(report("report")["stages"].size(), 4U);
}

TEST_F(Launch, EncryptsAcrossHostsByKeysAlone) {
  const auto plain = task("1", launch());
  EXPECT_EQ(plain->code(), 2);
  EXPECT_THAT(plain->err(), HasSubstr("expected --keys for ranks on several hosts (n[1-2]), found none"));
  ASSERT_EQ(tool({"keys", "new", file("keys")}).code(), 0);
  const launch_text words = launch({"--keys", file("keys")});
  const auto server = task("0", words);
  const auto worker = task("1", words);
  EXPECT_EQ(server->code(), 0) << server->err();
  EXPECT_EQ(worker->code(), 0) << worker->err();
  EXPECT_THAT(server->err(), HasSubstr("listening on 0.0.0.0:"));
  expect_files(1);
}

TEST_F(Launch, GivesUpInOneLineWhenRanksDoNotMeet) {
  const auto worker = rank("1", "3", launch({"--meet-within", "1"}));
  EXPECT_EQ(worker->code(), 1);
  EXPECT_THAT(worker->err(), HasSubstr("rank 1 of 3: expected the address of rank 0 in " +
                                       file("mailgrad-mpirun-77.address within 1 s")));
  const auto server = rank("0", "3", launch({"--meet-within", "1"}));
  EXPECT_EQ(server->code(), 1);
  EXPECT_THAT(server->err(), HasSubstr("rank 0 of 3: expected 2 workers within 1 s, found 0"));
  expect_files(0);
}

TEST_F(Launch, ResumesFromItsCheckpoints) {
  const launch_text keeps = launch({"--checkpoint", file("kept"), "--checkpoint-every", "4"});
  const auto run = [&](const launch_text& words) {
    const auto server = rank("0", "3", words);
    const auto first = rank("1", "3", words);
    const auto second = rank("2", "3", words);
    EXPECT_EQ(server->code(), 0) << server->err();
    return server->err();
  };
  run(keeps);
  EXPECT_THAT(run({"launch", "--rendezvous", file(""), "--resume", file("kept"), "--epochs", "2"}),
              AllOf(HasSubstr("resuming from"), HasSubstr("sync on 2 workers of other processes")));
}

/// Ranks read from their command line alone how they meet.
TEST_F(Launch, SaysByWhichCommandItGoesOn) {
  launch_text words = launch({"--checkpoint", file("kept"), "--epochs", "100000000", "--wire", "bfloat16"});
  const std::string command =
      "mailgrad launch --rendezvous=" + folder.path().string() + " --wire=bfloat16 --resume " + file("kept");
  for (int round = 0; round < 2; ++round) {
    const auto server = rank("0", "2", words);
    const auto worker = rank("1", "2", words);
    ASSERT_TRUE(server->says(", loss ")) << server->err();
    for (const auto* each : {&worker, &server}) (*each)->signal(SIGTERM);
    EXPECT_EQ(server->code(), 128 + SIGTERM) << server->err();
    EXPECT_THAT(server->out(), HasSubstr("\ngoes on by    mpirun -n 2 " + command + "\n"));
    words = {"launch", "--rendezvous=" + folder.path().string(), "--wire=bfloat16", "--resume", file("kept")};
  }
}

TEST_F(Launch, RefusesInOneLineWhatIsNoRun) {
  tool alone(launch());
  EXPECT_EQ(alone.code(), 2);
  EXPECT_THAT(alone.err(), HasSubstr("run: mpirun -n 4 mailgrad launch"));
  const auto refused = [&](const launch_text& more, const std::string& why) {
    for (const char* number : {"0", "1"}) { // no rank waits for another that has refused
      const auto t = rank(number, "2", joined({"launch", "--data", MAILGRAD_SMALL_CSV}, more));
      EXPECT_EQ(t->code(), 2) << t->err();
      EXPECT_THAT(t->err(), HasSubstr(why));
    }
  };
  refused({"--workers", "3"}, "--workers 3: mpirun starts 2 ranks, so there are 1; leave it out");
  refused({"--policy", "hogwild"}, "--policy hogwild");
  refused({"--listen", "10.1.2.3.4:7"}, "10.1.2.3.4");
  refused({"--meet-within", "0"}, "--meet-within");
}

} // namespace
} // namespace mailgrad
