#include <mailgrad/cli/remote/launch_words.hpp>

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;

environment ranks(const std::string& size, const std::string& on_this_host) {
  return {{"OMPI_COMM_WORLD_RANK", "0"},
          {"OMPI_COMM_WORLD_SIZE", size},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", on_this_host},
          {"PMIX_NAMESPACE", "7"}};
}

std::string refusal(const environment& e, bool has_keys) {
  try {
    required_place(e, has_keys);
  } catch (const std::invalid_argument& x) {
    return x.what();
  }
  return "nothing was refused";
}

TEST(LaunchWords, RefuseWhatIsNoRunOfSeveralRanks) {
  EXPECT_THAT(refusal({}, true), HasSubstr("run: mpirun -n 4 mailgrad launch"));
  EXPECT_THAT(refusal(ranks("1", "1"), true),
              HasSubstr("expected 2 ranks or more, a server and its workers"));
  EXPECT_EQ(required_place(ranks("2", "2"), false).size, 2U);
}

TEST(LaunchWords, RefuseSeveralHostsWithoutKeys) {
  EXPECT_THAT(refusal(ranks("4", "2"), false),
              HasSubstr("expected --keys for ranks on several hosts, found"));
  EXPECT_EQ(required_place(ranks("4", "2"), true).size, 4U);
}

TEST(LaunchWords, ListenBeyondThisMachineOnlyForOthersAndWithKeys) {
  const launch_words usual;
  const launch_place here = required_place(ranks("4", "4"), false);
  const launch_place several = required_place(ranks("4", "2"), true);
  EXPECT_EQ(address_to_listen(usual, here, false), "127.0.0.1:0");
  EXPECT_EQ(address_to_listen(usual, here, true), "127.0.0.1:0");
  EXPECT_EQ(address_to_listen(usual, several, true), "0.0.0.0:0");
  const launch_place unknown{.size = 2, .run = "7", .launcher = "mpiexec", .hosts = {}};
  EXPECT_EQ(address_to_listen(usual, unknown, false), "127.0.0.1:0");
  EXPECT_EQ(address_to_listen(usual, unknown, true), "0.0.0.0:0");
  launch_words given;
  given.listen = "10.0.0.1:7000";
  EXPECT_EQ(address_to_listen(given, here, false), "10.0.0.1:7000");
}

TEST(LaunchWords, KnowWhetherAnAddressTellsWhereTheServerIs) {
  const auto tells = [](const std::string& listen) {
    launch_words w;
    w.listen = listen;
    return is_told(w);
  };
  EXPECT_TRUE(tells("10.0.0.1:7000"));
  EXPECT_FALSE(tells(""));
  EXPECT_FALSE(tells("10.0.0.1:0"));
  EXPECT_FALSE(tells("0.0.0.0:7000"));
  EXPECT_FALSE(tells("[::]:7000"));
  EXPECT_THROW(tells("10.0.0.1"), std::invalid_argument);
}

TEST(LaunchWords, TakeSumsOnlyOverMpi) {
  launch_words w;
  w.all_reduce = true;
  EXPECT_THAT([&] { check_transport(w, false, "end"); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr(
                  "--all-reduce: expected --transport mpi, by which workers reach each other, found tcp")));
  w.transport = "mpi";
  check_transport(w, false, "end");
}

TEST(LaunchWords, WaitForNoWorkersThatMpiWouldNotLetIn) {
  launch_words w;
  check_transport(w, false, "wait");
  w.transport = "mpi";
  EXPECT_THAT([&] { check_transport(w, false, "60"); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr(
                  "--when-alone 60: expected end with --transport mpi, where nobody can join later")));
}

} // namespace
} // namespace mailgrad
