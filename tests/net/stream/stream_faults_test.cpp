#include <mailgrad/tests/net/awaited_layers.hpp>
#include <mailgrad/tests/net/stream/network_kinds.hpp>

#include <gmock/gmock.h>

#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>

// What holds for every network between processes when a peer fails.

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::HasSubstr;

std::size_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// What is mapped into this process and is shared with others.
std::size_t shared_maps() {
  std::ifstream all("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(all, line);) count += line.find("memfd:mailgrad") != line.npos ? 1 : 0;
  return count;
}

/// A client in a process of its own, born before this one has threads.
class peer_process {
public:
  explicit peer_process(const network_kind& kind) {
    if (pipe(ends_) != 0) throw std::runtime_error("no pipe");
    child_ = fork();
    if (child_ != 0) return;
    std::string address;
    for (char c = 0; read(ends_[0], &c, 1) == 1 && c != '\n';) address += c;
    const auto net = kind.make();
    awaited_client client(*net);
    net->connect(client.end, address);
    for (;;) pause();
  }
  ~peer_process() {
    kill();
    close(ends_[0]);
    close(ends_[1]);
  }
  peer_process(const peer_process&) = delete;
  peer_process& operator=(const peer_process&) = delete;

  void join(std::string address) {
    address += '\n';
    ASSERT_EQ(write(ends_[1], address.data(), address.size()), static_cast<ssize_t>(address.size()));
  }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    waitpid(std::exchange(child_, 0), nullptr, 0);
  }

private:
  int ends_[2] = {-1, -1};
  pid_t child_ = 0;
};

/// A server whose peers fail.
struct StreamFaults : testing::TestWithParam<network_kind> {
  void TearDown() override { net->forget(server.end); }

  peer_process peer{GetParam()}; // before this process has threads
  const std::unique_ptr<network> net = GetParam().make();
  awaited_server server{{.times = timing{50ms}}};
  std::string address = net->listen(server.end, GetParam().any_address);
};

TEST_P(StreamFaults, NoticesAPeerThatIsSilent) {
  const auto other = GetParam().make();
  awaited_client client(*other);
  other->connect(client.end, address);
  ASSERT_TRUE(client.layers.wait_joined());
  awaited_layers* guest = server.guest(0);
  ASSERT_TRUE(guest && guest->wait_joined());
  std::promise<void> wakes;
  other->post(client.end, [&](instant) { wakes.get_future().wait(); }); // its thread stands still
  EXPECT_THAT(guest->wait_ended(), HasSubstr("expected a sign of life each 50 ms, found none"));
  EXPECT_EQ(guest->kept().ends.front().reason, end_reason::silent);
  wakes.set_value();
  EXPECT_THAT(client.layers.wait_ended(), AnyOf(HasSubstr("says:"), HasSubstr("without a goodbye"),
                                                HasSubstr("expected a sign of life")));
  other->forget(client.end);
}

/// What is under way to it will never be read, and neither will the reason of the end.
TEST_P(StreamFaults, LetsAPeerGoThatReadsNothing) {
  constexpr std::uint32_t many = 500;
  awaited_server much{{.times = timing{50ms}, .messages = many}};
  const std::string there = net->listen(much.end, GetParam().any_address);
  const auto other = GetParam().make();
  awaited_client client(*other);
  other->connect(client.end, there);
  ASSERT_TRUE(client.layers.wait_joined());
  awaited_layers* guest = much.guest(0);
  ASSERT_TRUE(guest && guest->wait_joined());
  std::promise<void> wakes;
  other->post(client.end, [&](instant) { wakes.get_future().wait(); }); // its thread stands still
  net->post(much.end, [&](instant) {
    for (std::uint32_t i = 0; i < many; ++i) guest->own->send(bytes(most_message_bytes));
  });
  EXPECT_NE(guest->wait_ended(), "");
  const auto connections = [&] {
    std::promise<std::size_t> count;
    net->post(much.end, [&](instant) { count.set_value(much.end.connections()); });
    return count.get_future().get();
  };
  const instant until = net->now() + 10s;
  while (connections() > 0 && net->now() < until) std::this_thread::yield();
  EXPECT_EQ(connections(), 0U);
  wakes.set_value();
  other->forget(client.end);
  net->forget(much.end);
}

TEST_P(StreamFaults, ForgetsWhileTrafficRuns) {
  const auto body = std::make_shared<const bytes>(bytes(3 << 20, std::byte{1}));
  const auto other = GetParam().make();
  for (std::size_t round = 0; round < 30; ++round) {
    auto client = std::make_unique<awaited_client>(*other);
    other->connect(client->end, address);
    ASSERT_TRUE(client->layers.wait_joined());
    awaited_layers* guest = server.guest(round);
    ASSERT_TRUE(guest && guest->wait_joined());
    std::vector<std::jthread> senders;
    for (int t = 0; t < 2; ++t)
      senders.emplace_back([&] {
        for (int i = 0; i < 20; ++i)
          other->post(client->end, [&](instant) {
            if (client->end.own().now_is() != session::state::joined) return;
            client->end.own().send(bytes_of("a"));
            client->end.own().send_body(bytes_of("b"), *body, body);
          });
      });
    std::promise<void> given; // before the client is gone, and the guest's session with it
    net->post(server.end, [&](instant) {
      guest->own->send_body(bytes_of("c"), *body, body);
      given.set_value();
    });
    given.get_future().wait();
    senders.clear();
    other->forget(client->end);
    client.reset();
    EXPECT_THAT(guest->wait_ended(), HasSubstr("closed without a goodbye"));
  }
}

TEST_P(StreamFaults, LeaveNothingBehind) {
  const auto other = GetParam().make();
  awaited_server calm; // takes nobody for dead on a busy machine
  const std::string there = net->listen(calm.end, GetParam().any_address);
  const std::size_t before = descriptors(), mapped = shared_maps();
  for (int i = 0; i < 200; ++i) {
    awaited_client client(*other);
    other->connect(client.end, there);
    ASSERT_TRUE(client.layers.wait_joined());
    other->post(client.end, [&](instant now) { client.end.own().leave("enough", now); });
    ASSERT_EQ(client.layers.wait_ended(), "enough");
    other->forget(client.end);
  }
  while (descriptors() > before || shared_maps() > mapped) std::this_thread::yield(); // the last ones wait
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(shared_maps(), mapped);
  net->forget(calm.end);
}

TEST_P(StreamFaults, AreNoticedAtOnceWhenAPeerIsKilled) {
  awaited_server slow{{.times = timing{5'000ms}}}; // so silence would take half a minute
  const std::size_t before = descriptors(), mapped = shared_maps();
  peer.join(net->listen(slow.end, GetParam().any_address));
  awaited_layers* guest = slow.guest(0);
  ASSERT_TRUE(guest && guest->wait_joined());
  const instant then = net->now();
  peer.kill();
  EXPECT_THAT(guest->wait_ended(), HasSubstr("connection closed without a goodbye"));
  EXPECT_LT(net->now() - then, timing{5'000ms}.silence());
  EXPECT_EQ(guest->kept().ends.front().reason, end_reason::lost);
  net->forget(slow.end);
  while (descriptors() > before || shared_maps() > mapped) std::this_thread::yield();
  EXPECT_EQ(shared_maps(), mapped);
}

INSTANTIATE_TEST_SUITE_P(Kinds, StreamFaults, testing::ValuesIn(network_kinds()),
                         [](const auto& kind) { return kind.param.name; });

} // namespace
} // namespace mailgrad::net
