#include <mailgrad/net/listen_address.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

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
  using namespace std::string_view_literals;
  for (const std::string_view text : {""sv,
                                      ":"sv,
                                      ":80"sv,
                                      "80"sv,
                                      "127.0.0.1"sv,
                                      "127.0.0.1:"sv,
                                      "127.0.0.1:65536"sv,
                                      "127.0.0.1:-1"sv,
                                      "127.0.0.1: 80"sv,
                                      "127.0.0.1:+80"sv,
                                      "127.0.0.1:000080"sv,
                                      "127.0.0:80"sv,
                                      "127.0.0.256:80"sv,
                                      " 127.0.0.1:80"sv,
                                      "::1:80"sv,
                                      "[::1]80"sv,
                                      "[]:80"sv,
                                      "[127.0.0.1]:80"sv,
                                      "example.org:80"sv,

                                      "127.0.0.1:80 "sv,
                                      "0x7f000001:80"sv,
                                      "http://127.0.0.1:80"sv,
                                      "run.rec"sv})
    EXPECT_THAT([&] { parse_listen_address(text); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("expected HOST:PORT")))
        << text;
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

TEST(ListenAddress, RefusesAZeroByteBehindANumber) {
  EXPECT_THROW(parse_listen_address(std::string_view("127.0.0.1\0:80", 13)), std::invalid_argument);
}

} // namespace
} // namespace mailgrad
