#include <mailgrad/net/tcp/tcp_network.hpp>

#include <mailgrad/tests/net/awaited_layers.hpp>

#include <gmock/gmock.h>

#include <optional>
#include <stdexcept>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr, testing::StartsWith;

/// A server and a client that have a network each.
struct TcpNetwork : testing::Test {
  void serve(server_options options = {}) {
    server.emplace(std::move(options));
    address = server_net.listen(server->end, "127.0.0.1:0");
  }
  void TearDown() override {
    client_net.forget(client.end);
    if (server) server_net.forget(server->end);
  }

  tcp_network server_net, client_net;
  std::optional<awaited_server> server;
  awaited_client client{client_net};
  std::string address;
};

TEST_F(TcpNetwork, FindsAServerByItsNameAndByTheOtherKindOfNumber) {
  serve();
  awaited_server six;
  std::string there;
  try {
    there = server_net.listen(six.end, "[::1]:0");
  } catch (const std::system_error&) {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  client_net.connect(client.end, there);
  EXPECT_TRUE(client.layers.wait_joined());
  awaited_client named(client_net);
  client_net.connect(named.end, "localhost" + address.substr(address.rfind(':')));
  EXPECT_TRUE(named.layers.wait_joined());
  client_net.forget(named.end);
  client_net.forget(client.end);
  server_net.forget(six.end);
}

TEST_F(TcpNetwork, TriesOnceWhereAServerIsKnownToHaveListened) {
  serve();
  server_net.forget(server->end);
  client.end.try_once(); // else for 10 s
  client_net.connect(client.end, address);
  EXPECT_THAT(client.layers.wait_ended(), HasSubstr("nobody listens there: start"));
  EXPECT_EQ(client.layers.kept().ends.front().reason, end_reason::absent);
}

TEST_F(TcpNetwork, SaysThatThereIsNoSuchHost) {
  tcp_network net({.patience = 0ms});
  awaited_client lost(net);
  net.connect(lost.end, "no-such-host.invalid:7000");
  EXPECT_THAT(lost.layers.wait_ended(),
              StartsWith("server: cannot connect to no-such-host.invalid:7000: there is no host "
                         "'no-such-host.invalid'"));
  net.forget(lost.end);
}

TEST_F(TcpNetwork, RefusesAddressesThatAreNone) {
  EXPECT_THROW(client_net.connect(client.end, "127.0.0.1:0"), std::invalid_argument);
}

} // namespace
} // namespace mailgrad::net
