#include <mailgrad/tests/cli/remote/remote_tool.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <string>

// Runs whose processes know each other by keys.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using testing::operator+;
using testing::tool;
using testing::words;

struct RemoteKeys : testing::RemoteTool {
  RemoteKeys() { EXPECT_EQ(tool({"keys", "new", keys}).code(), 0); }

  /// A run with a server, a parameter host and a worker to its end.
  void expect_run(const std::string& by) {
    tool server(serve("1") + words{"--keys", by, "--shards", "2", "--shard-hosts", "1"});
    const std::string address = address_of(server);
    tool host({"shard", "--join", address, "--keys", by});
    tool worker({"join", address, "--keys", by});
    EXPECT_EQ(server.code(), 0) << server.err();
    EXPECT_EQ(host.code(), 0) << host.err();
    EXPECT_EQ(worker.code(), 0) << worker.err();
    EXPECT_THAT(server.out(), HasSubstr("completed after "));
  }

  const std::string keys = file("keys");
};

TEST_F(RemoteKeys, LetParameterHostsJoinAndBeJoinedByCertificates) { expect_run(keys); }

TEST_F(RemoteKeys, LetParameterHostsJoinAndBeJoinedByAToken) { expect_run(keys + "/token"); }

TEST_F(RemoteKeys, OfAnOlderToolHaveNoneForAParameterHost) {
  std::filesystem::remove(keys + "/shard.pem");
  std::filesystem::remove(keys + "/shard.key");
  tool host({"shard", "--join", "127.0.0.1:1", "--keys", keys});
  EXPECT_EQ(host.code(), 2);
  EXPECT_THAT(host.err(),
              HasSubstr("--keys " + keys + ": expected shard.pem for a parameter host, found none"));
  EXPECT_THAT(host.err(), HasSubstr("--keys " + keys + "/token\n"));
}

TEST_F(RemoteKeys, OfAnotherKindSayWhatToGive) {
  tool server(serve("1") + words{"--keys", keys});
  const std::string address = address_of(server);
  const auto refused = [&](const words& given, const std::string& why) {
    tool worker(words{"join", address} + given);
    EXPECT_NE(worker.code(), 0);
    EXPECT_THAT(worker.err(), HasSubstr(why));
  };
  refused({}, "found a peer without keys: give --keys with the keys of the server\n");
  refused({"--keys", keys + "/token"}, ": give both sides the folder, or both its token\n");
  refused({"--keys", keys + "/ca.pem"}, "ca.pem: expected a token, found a certificate or its key: give the "
                                        "folder that it lies in\n");
}

TEST_F(RemoteKeys, AreMissedByNameInAFolderWithoutThem) {
  tool worker({"join", "127.0.0.1:1", "--keys", folder.path().string()});
  EXPECT_EQ(worker.code(), 2);
  EXPECT_THAT(worker.err(),
              HasSubstr(": expected worker.pem or token, which 'mailgrad keys new' makes, found neither\n"));
}

} // namespace
} // namespace mailgrad
