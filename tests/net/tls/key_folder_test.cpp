#include <mailgrad/net/tls/key_folder.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace mailgrad::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

mode_t permission_of(const std::string& path) {
  struct stat about {};
  EXPECT_EQ(stat(path.c_str(), &about), 0) << path;
  return about.st_mode & 07777;
}
std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct KeyFolder : ::testing::Test {
  scratch_folder files;
  std::filesystem::path where = files.path() / "of" / "mine";
  key_folder keys{where};
};

TEST_F(KeyFolder, HoldsKeysThatOnlyTheirOwnerReads) {
  const mode_t before = umask(0);
  keys.make();
  umask(before);
  EXPECT_EQ(permission_of(where), 0700U);
  for (const char* secret : {"ca.key", "server.key", "worker.key", "shard.key", "token"})
    EXPECT_EQ(permission_of(where / secret), 0600U);
  for (const char* known : {"ca.pem", "server.pem", "worker.pem", "shard.pem"})
    EXPECT_EQ(permission_of(where / known), 0644U);
  EXPECT_EQ(text_of(keys.token()).size(), 32U);
}

/// Its owner has had a reason, and a link may lead to a folder of somebody else.
TEST_F(KeyFolder, LeavesAFolderThatIsThereAsItIs) {
  const std::filesystem::path link = files.path() / "link";
  std::filesystem::create_directories(where);
  std::filesystem::permissions(where, std::filesystem::perms(0755));
  std::filesystem::create_directory_symlink(where, link);
  const key_folder behind(link);
  behind.make();
  EXPECT_EQ(permission_of(where), 0755U);
  EXPECT_EQ(permission_of(where / "token"), 0600U);
}

TEST_F(KeyFolder, MakesOthersEachTime) {
  keys.make();
  const key_folder again(files.path() / "again");
  again.make();
  for (const auto& [a, b] :
       {std::pair{keys.token(), again.token()}, std::pair{keys.of_server().key, again.of_server().key},
        std::pair{keys.of_server().authority, again.of_server().authority},
        std::pair{keys.of_server().key, keys.of_worker().key}})
    EXPECT_NE(text_of(a), text_of(b));
}

TEST_F(KeyFolder, IsNotMadeWhereKeysAre) {
  std::filesystem::create_directories(where);
  std::ofstream(where / "worker.key") << "mine";
  EXPECT_THAT([&] { keys.make(); },
              ThrowsMessage<std::invalid_argument>(AllOf(
                  HasSubstr("expected a folder without keys, found worker.key"), HasSubstr(where.string()))));
  EXPECT_EQ(text_of(where / "worker.key"), "mine");
  EXPECT_FALSE(std::filesystem::exists(where / "ca.pem"));
}

TEST_F(KeyFolder, SaysWhereItCannotBe) {
  const std::filesystem::path file = files.write("file", "x");
  EXPECT_THAT([&] { key_folder(file / "keys").make(); },
              ThrowsMessage<std::system_error>(HasSubstr("cannot write " + (file / "keys").string())));
}

} // namespace
} // namespace mailgrad::net
