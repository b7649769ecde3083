#include <mailgrad/net/tcp/tcp_network.hpp>

#include <mailgrad/net/tcp/tcp_dialer.hpp>
#include <mailgrad/tests/net/awaited_layers.hpp>
#include <mailgrad/tests/net/tcp/plain_listener.hpp>
#include <mailgrad/tests/support/http_client.hpp>

#include <gmock/gmock.h>

#include <sys/resource.h>

#include <cstdio>
#include <deque>
#include <optional>
#include <stdexcept>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;
using mailgrad::testing::http_client;

/// A server and a client that have a network each.
struct TcpNetwork : Test {
  tcp_network server_net, client_net;
  awaited_server server;
  std::string address = server.listen(server_net, "127.0.0.1:0");
  awaited_client client{client_net};
};

TEST_F(TcpNetwork, FindsAServerByItsNameAndByTheOtherKindOfNumber) {
  awaited_server six;
  std::string there;
  try {
    there = six.listen(server_net, "[::1]:0");
  } catch (const std::system_error&) {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  client.connect(there);
  EXPECT_TRUE(client.layers.wait_joined());
  awaited_client named(client_net, "localhost" + address.substr(address.rfind(':')));
  EXPECT_TRUE(named.layers.wait_joined());
}

TEST_F(TcpNetwork, TriesOnceWhereAServerIsKnownToHaveListened) {
  server.forget();
  client.end.try_once(); // else for 10 s
  client.connect(address);
  EXPECT_THAT(client.layers.wait_ended(), HasSubstr("nobody listens there: start"));
  EXPECT_EQ(client.layers.kept().ends.front().reason, end_reason::absent);
}

TEST_F(TcpNetwork, SaysThatThereIsNoSuchHost) {
  tcp_network net({.patience = 0ms});
  awaited_client lost(net, "no-such-host.invalid:7000");
  EXPECT_THAT(lost.layers.wait_ended(),
              StartsWith("server: cannot connect to no-such-host.invalid:7000: there is no host "
                         "'no-such-host.invalid'"));
}

TEST_F(TcpNetwork, RefusesAddressesThatAreNone) {
  EXPECT_THROW(client.connect("127.0.0.1:0"), std::invalid_argument);
}

/// A dialer to a name, about which the test says what the system would say.
struct TcpDialer : Test {
  tcp_dialer::outcome dial(tcp_dialer::plan plan) {
    std::optional<tcp_dialer::outcome> came;
    std::make_shared<tcp_dialer>(io, std::move(plan), [&](tcp_dialer::outcome x) {
      came.emplace(std::move(x));
    })->begin();
    io.restart();
    io.run();
    return std::move(came.value());
  }
  /// The answers come one after the other; after the last one the name is that of `there`.
  tcp_dialer::outcome dial(const std::vector<error_code>& failures, instant patience) {
    const std::uint16_t port = there.port();
    tcp_dialer::plan plan{"somewhere", port, patience, 10s, true};
    plan.look_up = [this, failures, port](const tcp_dialer::found& told) {
      const std::size_t i = asked++;
      if (i < failures.size()) return told(failures[i], {});
      told({}, {tcp::endpoint(asio::ip::address_v4::loopback(), port)});
    };
    return dial(std::move(plan));
  }

  plain_listener there;
  asio::io_context io;
  std::size_t asked = 0;
};

const error_code try_again = asio::error::host_not_found_try_again;

/// As while a network begins.
TEST_F(TcpDialer, AsksAgainWhileNobodyCanSayWhetherThereIsSuchAName) {
  const tcp_dialer::outcome found = dial({try_again, try_again}, 60s);
  EXPECT_EQ(found.words, "");
  EXPECT_TRUE(found.socket.is_open());
  EXPECT_EQ(asked, 3U);
}

TEST_F(TcpDialer, FindsAServerAtEitherAddressOfThisMachine) {
  for (const asio::ip::address& at : {asio::ip::address(asio::ip::address_v4::loopback()),
                                      asio::ip::address(asio::ip::address_v6::loopback())}) {
    error_code none;
    tcp::acceptor server(io);
    server.open(tcp::endpoint(at, 0).protocol(), none);
    if (!none) server.bind(tcp::endpoint(at, 0), none);
    if (!none) server.listen(1, none);
    if (none) continue; // a machine without IPv6
    const tcp_dialer::outcome came = dial({"localhost", server.local_endpoint().port(), 0s, 10s, true});
    EXPECT_EQ(came.words, "");
    EXPECT_EQ(came.socket.remote_endpoint().address(), at);
  }
}

TEST_F(TcpDialer, GivesANameUpWhenItsPatienceIsOver) {
  EXPECT_THAT(dial({try_again, try_again}, 0s).words, HasSubstr("there is no host 'somewhere'"));
  EXPECT_EQ(asked, 1U);
}

TEST_F(TcpDialer, GivesANameUpThatThereIsNot) {
  EXPECT_THAT(dial({asio::error::host_not_found}, 60s).words, HasSubstr("there is no host 'somewhere'"));
  EXPECT_EQ(asked, 1U);
}

/// A server and those who mean ill, or fail.
struct TcpFaults : Test {
  void expect_connections(std::size_t count) {
    while (server.connections() != count) std::this_thread::yield();
  }

  tcp_network net;
  awaited_server server{{.times = timing{50ms}}};
  std::string address = server.listen(net, "127.0.0.1:0");
  std::deque<http_client> strangers;
};

TEST_F(TcpFaults, TurnsAwayWhoeverSaysNoHelloAndGoesOnWithTheOthers) {
  tcp_network other;
  awaited_client client(other, address);
  ASSERT_TRUE(client.layers.wait_joined());
  server.guest(0)->echoes = true;
  const bytes hello = whole_frame({.kind = frame_kind::hello}, encode(to_features({})));
  const std::string begin(as_text(hello).substr(0, 43));
  const std::vector<std::string> words{"",
                                       "GET / HTTP/1.1\r\nHost: here\r\n\r\n",
                                       "\x16\x03\x01\x02\x05 as TLS begins",
                                       std::string(100'000, '\xff'),
                                       "mgn",
                                       begin,
                                       begin + 'x'};
  for (int round = 0; round < 8; ++round)
    for (const std::string& text : words) strangers.emplace_back(port_of(address)).say(text);
  for (std::size_t i = 1; i <= 20; ++i) {
    client.send("still here");
    ASSERT_TRUE(client.layers.wait_messages(i));
  }
  for (std::size_t i = 0; i < strangers.size(); ++i) {
    const std::string& heard = strangers[i].hear_out(); // until the server has closed
    const bool said_much = i % words.size() == 3;       // then it may be cut off before it reads
    EXPECT_TRUE(heard.starts_with("mgnf") || said_much) << i << ": " << heard;
  }
  expect_connections(2);
  EXPECT_THAT(server.refused(0), StartsWith("hello: expected a hello, found frame: expected 'mgnf'"));
  EXPECT_THAT(client.layers.kept().ends, IsEmpty());
}

/// A limit of the system that others take up.
struct DescriptorLimit {
  explicit DescriptorLimit(rlim_t soft) {
    getrlimit(RLIMIT_NOFILE, &before);
    const rlimit lower{soft, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &lower);
  }
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before); }
  rlimit before{};
};

TEST_F(TcpFaults, LeaveTheProcessDescriptorsForItsFiles) {
  const DescriptorLimit lower(open_files() + 64 + 40);
  for (int i = 0; i < 30; ++i) strangers.emplace_back(port_of(address));
  strangers.back().hear_out(); // until the server has closed: it was one too many
  std::vector<std::unique_ptr<std::FILE, int (*)(std::FILE*)>> files;
  for (int i = 0; i < 40; ++i) {
    files.emplace_back(std::fopen("/dev/null", "r"), std::fclose);
    EXPECT_TRUE(files.back());
  }
}

TEST_F(TcpFaults, IsAnsweredByNoServerOfMailgrad) {
  plain_listener silent;
  tcp_network other;
  awaited_client client(other, silent.address());
  EXPECT_THAT(client.layers.wait_ended(), "server: no answer from " + silent.address() +
                                              " within 2 s: expected a server of Mailgrad there");
}

TEST_F(TcpFaults, SaysWhoClosedBeforeItAnswered) {
  plain_listener rude;
  tcp_network other({.patience = 0ms});
  awaited_client client(other, rude.address());
  rude.turn_away();
  EXPECT_THAT(client.layers.wait_ended(),
              StartsWith("server: " + rude.address() + " closed the connection before"));
}

/// As `ssh -L` does while nobody listens at its far end.
TEST_F(TcpFaults, WaitsBehindATunnelForItsServer) {
  std::optional<plain_listener> tunnel(std::in_place);
  const std::string at = tunnel->address();
  std::vector<std::string> said;
  tcp_network other({.on_wait = [&](const std::string& words) { said.push_back(words); }});
  awaited_client client(other, at);
  tunnel->turn_away();
  tunnel->turn_away();
  tunnel.reset();
  server.listen(net, at);
  EXPECT_TRUE(client.layers.wait_joined()) << client.layers.wait_ended();
  client.forget();
  EXPECT_THAT(said, ElementsAre(at + " takes connections and closes them, as a tunnel does whose far end is "
                                     "not there yet; it tries again for 10 s"));
}

TEST_F(TcpFaults, LeavesNoDescriptorBehind) {
  const std::size_t before = open_files();
  for (int i = 0; i < 2000; ++i) {
    http_client stranger(port_of(address));
    if (i % 3 == 0) stranger.say("x");
  }
  expect_connections(0);
  server.forget();
  server.listen(net, address);
  while (open_files() > before) std::this_thread::yield(); // the last ones wait for their peers
  EXPECT_EQ(open_files(), before);
}

} // namespace
} // namespace mailgrad::net
