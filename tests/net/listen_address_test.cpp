#include <mailgrad/net/listen_address.hpp>

#include <gmock/gmock.h>

#include <stdexcept>

namespace mailgrad::net {
namespace {

using namespace ::testing;

TEST(ListenAddress, ReadsAHostAndAPort) {
  EXPECT_EQ(parse_listen_address("127.0.0.1:8080"), (listen_address{"127.0.0.1", 8080}));
  EXPECT_EQ(parse_listen_address("[::1]:0"), (listen_address{"::1", 0}));
  EXPECT_EQ(parse_listen_address("localhost:65535"), (listen_address{"127.0.0.1", 65535}));
}

TEST(ListenAddress, WritesWhatItReads) {
  for (const char* text : {"127.0.0.1:8080", "[::1]:0", "0.0.0.0:80", "[fe80::1:2]:443"})
    EXPECT_EQ(to_string(parse_listen_address(text)), text);
}

TEST(ListenAddress, KnowsWhatOnlyThisMachineReaches) {
  for (const char* text : {"127.0.0.1:1", "127.8.9.10:1", "[::1]:1", "localhost:1"})
    EXPECT_TRUE(parse_listen_address(text).is_loopback()) << text;
  for (const char* text : {"0.0.0.0:1", "[::]:1", "192.168.0.1:1", "128.0.0.1:1", "[::ffff:127.0.0.1]:1"})
    EXPECT_FALSE(parse_listen_address(text).is_loopback()) << text;
}

TEST(ListenAddress, KnowsWhatMeansEveryNetwork) {
  for (const char* text : {"0.0.0.0:1", "[::]:1", "[0:0::0]:1"})
    EXPECT_TRUE(parse_listen_address(text).is_every_network()) << text;
  for (const char* text : {"127.0.0.1:1", "[::1]:1", "10.0.0.0:1"})
    EXPECT_FALSE(parse_listen_address(text).is_every_network()) << text;
  EXPECT_FALSE(parse_server_address("node3.local:1").is_every_network());
}

TEST(ListenAddress, RefusesWhatIsNone) {
  for (const char* text : {"",
                           ":",
                           ":80",
                           "80",
                           "127.0.0.1",
                           "127.0.0.1:",
                           "127.0.0.1:65536",
                           "127.0.0.1:-1",
                           "127.0.0.1: 80",
                           "127.0.0.1:+80",
                           "127.0.0.1:000080",
                           "127.0.0:80",
                           "127.0.0.256:80",
                           " 127.0.0.1:80",
                           "::1:80",
                           "[::1]80",
                           "[]:80",
                           "[127.0.0.1]:80",
                           "example.org:80",
                           "127.0.0.1:80 ",
                           "0x7f000001:80",
                           "http://127.0.0.1:80",
                           "run.rec"})
    EXPECT_THAT([&] { parse_listen_address(text); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("expected HOST:PORT")))
        << text;
}

TEST(ListenAddress, RefusesAZeroByteBehindANumber) {
  EXPECT_THROW(parse_listen_address(std::string_view("127.0.0.1\0:80", 13)), std::invalid_argument);
}

TEST(ListenAddress, ReadsTheNameOfAServerToConnectTo) {
  EXPECT_EQ(parse_server_address("node3.local:7000"), (listen_address{"node3.local", 7000}));
  EXPECT_EQ(parse_server_address("10gpu-node:7000"), (listen_address{"10gpu-node", 7000}));
  EXPECT_EQ(parse_server_address("10.0.0.3:7000"), (listen_address{"10.0.0.3", 7000}));
  EXPECT_EQ(parse_server_address("[fe80::1]:7000"), (listen_address{"fe80::1", 7000}));
  for (const std::string_view text :
       {"node3:0", "127.1:80", "node.0x7f:80", "a b:80", ":80", "::1:80", "node3"})
    EXPECT_THAT([&] { parse_server_address(text); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("is no address of a server")))
        << text;
}

TEST(MemoryAddress, IsReadAndWritten) {
  EXPECT_TRUE(is_memory_address("memory:run-7"));
  EXPECT_FALSE(is_memory_address("127.0.0.1:7000"));
  EXPECT_FALSE(is_memory_address("memory"));
  EXPECT_EQ(parse_memory_listen_address("memory:run-7"), "run-7");
  EXPECT_EQ(parse_memory_server_address("memory:a.B_9-"), "a.B_9-");
  EXPECT_EQ(memory_address("run-7"), "memory:run-7");
}

TEST(MemoryAddress, NeedsANameToConnectAlone) {
  EXPECT_EQ(parse_memory_listen_address("memory:"), "");
  EXPECT_THAT([] { parse_memory_server_address("memory:"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("'memory:' is no address in the memory of this "
                                                             "machine: expected memory:NAME with 1 to 64")));
}

TEST(MemoryAddress, RefusesOtherNames) {
  for (const std::string& text :
       {std::string("memory:a b"), std::string("memory:/dev/shm"), std::string("memor"),
        "memory:" + std::string(65, 'x'), std::string("memory:a\0b", 10)}) {
    EXPECT_THROW(parse_memory_listen_address(text), std::invalid_argument) << text;
    EXPECT_THROW(parse_memory_server_address(text), std::invalid_argument) << text;
  }
  EXPECT_EQ(parse_memory_listen_address("memory:" + std::string(64, 'x')).size(), 64U);
}

TEST(MpiAddress, NamesARank) {
  EXPECT_EQ(parse_mpi_address("mpi:0"), 0);
  EXPECT_EQ(parse_mpi_address(mpi_address(4711)), 4711);
  EXPECT_TRUE(is_mpi_address("mpi:"));
  EXPECT_FALSE(is_mpi_address("memory:mpi"));
}

TEST(MpiAddress, IsRefusedIfItNamesNone) {
  for (const char* wrong :
       {"mpi:", "mpi:-1", "mpi:x", "mpi:1x", "0", "", "mpi:10000000", "mpi:99999999999999999999"})
    EXPECT_THROW(parse_mpi_address(wrong), std::invalid_argument) << wrong;
}

} // namespace
} // namespace mailgrad::net
