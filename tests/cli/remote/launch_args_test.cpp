#include <mailgrad/cli/remote/launch_args.hpp>

#include <mailgrad/cli/remote/remote_args.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

environment ranks(const std::string& size, const std::string& on_this_host) {
  return {{"OMPI_COMM_WORLD_RANK", "0"},
          {"OMPI_COMM_WORLD_SIZE", size},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", on_this_host},
          {"PMIX_NAMESPACE", "7"}};
}

/// Why these are no ranks of a launcher, or none that may be as many with or without keys.
std::string refusal(const environment& e, std::optional<bool> has_keys = {}) {
  try {
    if (has_keys)
      required_place(e, *has_keys);
    else
      place_in(e);
  } catch (const std::invalid_argument& x) {
    return x.what();
  }
  return "nothing was refused";
}

TEST(LaunchArgs, RefuseWhatIsNoRunOfSeveralRanks) {
  EXPECT_THAT(refusal({}, true), HasSubstr("run: mpirun -n 4 mailgrad launch"));
  EXPECT_THAT(refusal(ranks("1", "1"), true),
              HasSubstr("expected 2 ranks or more, a server and its workers"));
  EXPECT_EQ(required_place(ranks("2", "2"), false).size, 2U);
}

TEST(LaunchArgs, RefuseSeveralHostsWithoutKeys) {
  EXPECT_THAT(refusal(ranks("4", "2"), false),
              HasSubstr("expected --keys for ranks on several hosts, found"));
  EXPECT_EQ(required_place(ranks("4", "2"), true).size, 4U);
}

TEST(LaunchArgs, ListenBeyondThisMachineOnlyForOthersAndWithKeys) {
  const launch_args usual;
  const launch_place here = required_place(ranks("4", "4"), false);
  const launch_place several = required_place(ranks("4", "2"), true);
  EXPECT_EQ(address_to_listen(usual, here, false), "127.0.0.1:0");
  EXPECT_EQ(address_to_listen(usual, here, true), "127.0.0.1:0");
  EXPECT_EQ(address_to_listen(usual, several, true), "0.0.0.0:0");
  const launch_place unknown{.size = 2, .run = "7", .launcher = "mpiexec", .hosts = {}};
  EXPECT_EQ(address_to_listen(usual, unknown, false), "127.0.0.1:0");
  EXPECT_EQ(address_to_listen(usual, unknown, true), "0.0.0.0:0");
  launch_args given;
  given.listen = "10.0.0.1:7000";
  EXPECT_EQ(address_to_listen(given, here, false), "10.0.0.1:7000");
}

TEST(LaunchArgs, KnowWhetherAnAddressTellsWhereTheServerIs) {
  const auto tells = [](const std::string& listen) {
    launch_args w;
    w.listen = listen;
    return is_told(w);
  };
  EXPECT_TRUE(tells("10.0.0.1:7000"));
  for (const char* listen : {"", "10.0.0.1:0", "0.0.0.0:7000", "[::]:7000"})
    EXPECT_FALSE(tells(listen)) << listen;
  EXPECT_THROW(tells("10.0.0.1"), std::invalid_argument);
}

TEST(LaunchArgs, TakeSumsOnlyOverMpi) {
  launch_args w;
  w.all_reduce = true;
  EXPECT_THAT([&] { check_transport(w, false, "end"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr(
                  "--all-reduce: expected --transport mpi, by which workers reach each other, found tcp")));
  w.transport = "mpi";
  check_transport(w, false, "end");
}

TEST(LaunchArgs, WaitForNoWorkersThatMpiWouldNotLetIn) {
  launch_args w;
  check_transport(w, false, "wait");
  w.transport = "mpi";
  EXPECT_THAT([&] { check_transport(w, false, "60"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr(
                  "--when-alone 60: expected end with --transport mpi, where nobody can join later")));
}

const environment open_mpi{{"OMPI_COMM_WORLD_RANK", "2"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                           {"PMIX_NAMESPACE", "1228406785"}};
const environment slurm{{"SLURM_PROCID", "3"},         {"SLURM_NTASKS", "8"},
                        {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_JOB_ID", "17"},
                        {"SLURM_STEP_ID", "0"},        {"SLURM_STEP_NUM_NODES", "2"},
                        {"SLURM_NODEID", "1"},         {"SLURM_STEP_NODELIST", "n[1-2]"}};
const environment mpich{{"PMI_RANK", "1"}, {"PMI_SIZE", "6"}, {"MPI_LOCALNRANKS", "3"}};

/// The first with what the second has besides.
environment both(environment first, const environment& second) {
  first.insert(second.begin(), second.end());
  return first;
}

TEST(LaunchPlace, IsToldByOpenMpi) {
  const launch_place expected{
      .rank = 2, .size = 4, .run = "1228406785", .launcher = "mpirun", .over = spread::one_host, .hosts = ""};
  EXPECT_EQ(place_in(open_mpi), expected);
  EXPECT_FALSE(expected.serves());
  EXPECT_EQ(expected.workers(), 3U);
  EXPECT_EQ(expected.name(), "rank 2 of 4");
}

TEST(LaunchPlace, IsToldBySlurmForTheStepAndNotTheJob) {
  const launch_place expected{.rank = 3,
                              .size = 4,
                              .run = "17.0",
                              .launcher = "srun",
                              .over = spread::several_hosts,
                              .hosts = "n[1-2]"};
  EXPECT_EQ(place_in(slurm), expected);
}

/// Ranks would else find the address of a run that is gone.
TEST(LaunchPlace, IsAnotherRunWhenSlurmStartsTheJobAgain) {
  EXPECT_EQ(place_in(both(slurm, {{"SLURM_RESTART_COUNT", "2"}})).value().run, "17.0.again-2");
}

TEST(LaunchPlace, IsToldByAnMpiexecThatNamesNoRun) {
  const launch_place expected{
      .rank = 1, .size = 6, .run = "", .launcher = "mpiexec", .over = spread::several_hosts, .hosts = ""};
  EXPECT_EQ(place_in(mpich), expected);
}

TEST(LaunchPlace, IsThatOfTheLauncherNearestToTheProcess) {
  EXPECT_EQ(place_in(both(open_mpi, slurm)), place_in(open_mpi));
  EXPECT_EQ(place_in(both(slurm, mpich)), place_in(mpich)) << "a step that started an mpiexec";
  const environment pmi_of_slurm{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}};
  EXPECT_EQ(place_in(both(slurm, pmi_of_slurm)), place_in(slurm)) << "srun --mpi=pmi2";
}

TEST(LaunchPlace, IsNoneWithoutALauncher) {
  EXPECT_EQ(place_in({}), std::nullopt);
  EXPECT_EQ(place_in({{"PATH", "/bin"}, {"OMPI_COMM_WORLD_RANK", ""}}), std::nullopt);
  const environment batch_script{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "17"}};
  EXPECT_EQ(place_in(batch_script), std::nullopt);
}

TEST(LaunchPlace, DoesNotKnowOfHostsThatTheLauncherDoesNotTell) {
  environment e = open_mpi;
  e.erase("OMPI_COMM_WORLD_LOCAL_SIZE");
  EXPECT_EQ(place_in(e)->over, spread::unknown);
  e["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  EXPECT_EQ(place_in(e)->over, spread::several_hosts);
}

TEST(LaunchPlace, NamesARunByWhatAFilesNameMayHold) {
  environment e = open_mpi;
  e["PMIX_NAMESPACE"] = "prterun-node1-77@1/../x y";
  EXPECT_EQ(place_in(e)->run, "prterun-node1-77@1_.._x_y");
}

TEST(LaunchPlace, RefusesWhatIsNoPlaceInOneLine) {
  for (const char* wrong : {"x", "-1", "4294967296", "1.5"}) {
    environment e = open_mpi;
    e["OMPI_COMM_WORLD_RANK"] = wrong;
    EXPECT_EQ(refusal(e), std::string("launch: OMPI_COMM_WORLD_RANK: expected a whole number from the "
                                      "launcher, found '") +
                              wrong + "'");
  }
  environment e = open_mpi;
  e["OMPI_COMM_WORLD_RANK"] = "4";
  EXPECT_THAT(refusal(e), HasSubstr("expected a rank below the size 4 from mpirun, found rank 4"));
  EXPECT_THAT(refusal({{"PMI_RANK", "0"}}), HasSubstr("PMI_SIZE: expected a whole number"));
}

TEST(CoreBinding, SaysHowTheLauncherDoesNotBind) {
  const core_binding one_of_two{.bound = 1, .of = 2};
  EXPECT_TRUE(one_of_two.narrow());
  EXPECT_THAT(one_of_two.in_words("mpirun"), AllOf(HasSubstr("1 of 2 cores"), HasSubstr("'--bind-to none'")));
  EXPECT_THAT(one_of_two.in_words("srun"), HasSubstr("--cpu-bind=none"));
  EXPECT_FALSE((core_binding{.bound = 2, .of = 2}).narrow());
}

const launch_place second{.rank = 2, .size = 4, .run = "17.0", .launcher = "srun", .hosts = {}};

struct AddressFile : ::testing::Test {
  scratch_folder folder;
  address_file at_server{folder.path(), second};
  address_file at_rank{folder.path(), second};
};

TEST_F(AddressFile, IsNamedAfterTheRun) {
  EXPECT_EQ(at_rank.path(), folder.path() / "mailgrad-srun-17.0.address");
  launch_place nameless = second;
  nameless.run.clear();
  EXPECT_THROW(address_file(folder.path(), nameless), std::invalid_argument);
}

TEST_F(AddressFile, IsReadWholeAndWithNothingBesideIt) {
  EXPECT_EQ(at_rank.read(), std::nullopt);
  at_server.publish("10.0.0.1:7000");
  EXPECT_EQ(at_rank.read(), "10.0.0.1:7000");
  at_server.publish("10.0.0.1:8000");
  EXPECT_EQ(at_rank.read(), "10.0.0.1:8000");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST_F(AddressFile, IsRemovedByWhoPublishedItAndByNobodyElse) {
  {
    address_file server(folder.path(), second);
    server.publish("10.0.0.1:7000");
    { const address_file reader(folder.path(), second); }
    EXPECT_NE(at_rank.read(), std::nullopt);
  }
  EXPECT_EQ(at_rank.read(), std::nullopt);
}

TEST_F(AddressFile, OfAKilledRunIsCleared) {
  folder.write("mailgrad-srun-17.0.address", "10.0.0.1:7000\n");
  at_server.clear();
  EXPECT_EQ(at_rank.read(), std::nullopt);
}

TEST_F(AddressFile, IsWaitedFor) {
  std::thread server([&] { at_server.publish("10.0.0.1:7000"); });
  EXPECT_EQ(at_rank.wait_for(std::chrono::seconds{60}), "10.0.0.1:7000");
  server.join();
}

TEST_F(AddressFile, IsWaitedForUntilItIsGone) {
  at_rank.wait_until_gone(std::chrono::seconds{60}); // there was none
  at_server.publish("10.0.0.1:7000");
  at_rank.wait_until_gone(std::chrono::seconds{0}); // has no more time
  EXPECT_NE(at_rank.read(), std::nullopt);
  std::thread server([&] { at_server.clear(); });
  at_rank.wait_until_gone(std::chrono::seconds{60});
  EXPECT_EQ(at_rank.read(), std::nullopt);
  server.join();
}

TEST_F(AddressFile, ThatDoesNotComeIsNamed) {
  EXPECT_THAT([&] { at_rank.wait_for(std::chrono::seconds{0}); },
              ThrowsMessage<std::runtime_error>(
                  AllOf(HasSubstr("rank 2 of 4: expected the address of rank 0 in"),
                        HasSubstr("mailgrad-srun-17.0.address within 0 s, found no such file"))));
}

TEST_F(AddressFile, IsRefusedInAFolderThatIsNotThere) {
  address_file lost(folder.path() / "absent", second);
  EXPECT_THAT([&] { lost.publish("10.0.0.1:7000"); },
              ThrowsMessage<std::system_error>(
                  HasSubstr("give --rendezvous a folder that every rank sees: No such file")));
}

TEST(AddressForRanks, NamesTheHostOfAServerOnEveryNetwork) {
  EXPECT_EQ(address_for_ranks("0.0.0.0:41000", "node1"), "node1:41000");
  EXPECT_EQ(address_for_ranks("[::]:41000", "node1"), "node1:41000");
  EXPECT_EQ(address_for_ranks("127.0.0.1:41000", "node1"), "127.0.0.1:41000");
  EXPECT_EQ(address_for_ranks("[::1]:41000", "node1"), "[::1]:41000");
}

} // namespace
} // namespace mailgrad
