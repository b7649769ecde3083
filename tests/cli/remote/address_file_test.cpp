#include <mailgrad/cli/remote/remote_args.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;

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
  try {
    at_rank.wait_for(std::chrono::seconds{0});
    FAIL() << "there is no file";
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 2 of 4: expected the address of rank 0 in"));
    EXPECT_THAT(e.what(), HasSubstr("mailgrad-srun-17.0.address within 0 s, found no such file"));
  }
}

TEST_F(AddressFile, IsRefusedInAFolderThatIsNotThere) {
  address_file lost(folder.path() / "absent", second);
  try {
    lost.publish("10.0.0.1:7000");
    FAIL() << "there is no folder";
  } catch (const std::system_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("give --rendezvous a folder that every rank sees: No such file"));
  }
}

TEST(AddressForRanks, NamesTheHostOfAServerOnEveryNetwork) {
  EXPECT_EQ(address_for_ranks("0.0.0.0:41000", "node1"), "node1:41000");
  EXPECT_EQ(address_for_ranks("[::]:41000", "node1"), "node1:41000");
  EXPECT_EQ(address_for_ranks("127.0.0.1:41000", "node1"), "127.0.0.1:41000");
  EXPECT_EQ(address_for_ranks("[::1]:41000", "node1"), "[::1]:41000");
}

} // namespace
} // namespace mailgrad
