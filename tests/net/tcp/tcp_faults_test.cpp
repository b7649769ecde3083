#include <mailgrad/net/tcp/tcp_network.hpp>

#include <mailgrad/tests/net/awaited_layers.hpp>
#include <mailgrad/tests/net/tcp/plain_listener.hpp>
#include <mailgrad/tests/support/http_client.hpp>

#include <gmock/gmock.h>

#include <sys/resource.h>

#include <cstdio>
#include <filesystem>
#include <future>
#include <optional>
#include <thread>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::http_client;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::size_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Does it on the network's thread, and waits.
template <class Work>
auto ask(network& net, endpoint& e, Work work) {
  std::promise<decltype(work())> answer;
  auto result = answer.get_future();
  net.post(e, [&](instant) { answer.set_value(work()); });
  return result.get();
}

/// A server and those who mean ill, or fail.
struct TcpFaults : ::testing::Test {
  /// The server has so many connections; waits until it is true.
  void expect_connections(std::size_t count) {
    while (ask(net, server.end, [&] { return server.end.connections(); }) != count) std::this_thread::yield();
  }
  std::uint16_t port() const {
    return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }
  void TearDown() override { net.forget(server.end); }

  tcp_network net;
  awaited_server server{{.times = timing{50ms}}};
  std::string address = net.listen(server.end, "127.0.0.1:0");
};

TEST_F(TcpFaults, TurnsAwayWhoeverSaysNoHelloAndGoesOnWithTheOthers) {
  tcp_network other;
  awaited_client client(other);
  other.connect(client.end, address);
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
  std::vector<std::unique_ptr<http_client>> strangers;
  for (int round = 0; round < 8; ++round)
    for (const std::string& text : words) {
      strangers.push_back(std::make_unique<http_client>(port()));
      strangers.back()->say(text);
    }
  for (int i = 0; i < 20; ++i) {
    other.post(client.end, [&](instant) { client.end.own().send(bytes_of("still here")); });
    const auto count = static_cast<std::size_t>(i) + 1;
    ASSERT_TRUE(client.layers.wait_for([&](auto& x) { return x.messages.size() == count; }));
  }
  for (std::size_t i = 0; i < strangers.size(); ++i) {
    const std::string& heard = strangers[i]->hear_out(); // until the server has closed
    const bool said_much = i % words.size() == 3;        // then it may be cut off before it reads
    EXPECT_TRUE(heard.starts_with("mgnf") || said_much) << i << ": " << heard;
  }
  expect_connections(2);
  EXPECT_THAT(server.refused(0), StartsWith("hello: expected a hello, found frame: expected 'mgnf'"));
  EXPECT_THAT(client.layers.kept().ends, IsEmpty());
  other.forget(client.end);
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
  std::vector<std::unique_ptr<http_client>> strangers;
  for (int i = 0; i < 30; ++i) strangers.push_back(std::make_unique<http_client>(port()));
  strangers.back()->hear_out(); // until the server has closed: it was one too many
  std::vector<std::unique_ptr<std::FILE, int (*)(std::FILE*)>> files;
  for (int i = 0; i < 40; ++i) {
    files.emplace_back(std::fopen("/dev/null", "r"), std::fclose);
    EXPECT_TRUE(files.back());
  }
}

TEST_F(TcpFaults, IsAnsweredByNoServerOfMailgrad) {
  net.forget(server.end);
  plain_listener silent;
  tcp_network other;
  awaited_client client(other);
  other.connect(client.end, silent.address());
  EXPECT_THAT(client.layers.wait_ended(), "server: no answer from " + silent.address() +
                                              " within 2 s: expected a server of Mailgrad there");
  other.forget(client.end);
}

TEST_F(TcpFaults, SaysWhoClosedBeforeItAnswered) {
  plain_listener rude;
  tcp_network other({.patience = 0ms});
  awaited_client client(other);
  other.connect(client.end, rude.address());
  rude.turn_away();
  EXPECT_THAT(client.layers.wait_ended(),
              StartsWith("server: " + rude.address() + " closed the connection before"));
  other.forget(client.end);
}

/// As `ssh -L` does while nobody listens at its far end.
TEST_F(TcpFaults, WaitsBehindATunnelForItsServer) {
  std::optional<plain_listener> tunnel(std::in_place);
  const std::string at = tunnel->address();
  std::vector<std::string> said;
  tcp_network other({.on_wait = [&](const std::string& words) { said.push_back(words); }});
  awaited_client client(other);
  other.connect(client.end, at);
  tunnel->turn_away();
  tunnel->turn_away();
  tunnel.reset();
  net.listen(server.end, at);
  EXPECT_TRUE(client.layers.wait_joined()) << client.layers.wait_ended();
  other.forget(client.end);
  EXPECT_THAT(said, ElementsAre(at + " takes connections and closes them, as a tunnel does whose far end is "
                                     "not there yet; it tries again for 10 s"));
}

TEST_F(TcpFaults, LeavesNoDescriptorBehind) {
  const std::size_t before = open_files();
  for (int i = 0; i < 2000; ++i) {
    http_client stranger(port());
    if (i % 3 == 0) stranger.say("x");
  }
  {
    tcp_network other;
    for (std::size_t i = 0; i < 100; ++i) {
      awaited_client client(other);
      other.connect(client.end, address);
      ASSERT_TRUE(client.layers.wait_joined());
      other.post(client.end, [&](instant now) { client.end.own().leave("enough", now); });
      ASSERT_EQ(client.layers.wait_ended(), "enough");
      other.forget(client.end);
    }
    expect_connections(0);
  }
  net.forget(server.end);
  const std::string again = net.listen(server.end, address);
  while (open_files() > before) std::this_thread::yield(); // the last ones wait for their peers
  EXPECT_EQ(open_files(), before);
}

} // namespace
} // namespace mailgrad::net
