#include <mailgrad/net/memory/memory_network.hpp>
#include <mailgrad/net/tcp/tcp_network.hpp>
#include <mailgrad/net/tls/key_folder.hpp>
#include <mailgrad/tests/net/awaited_layers.hpp>
#include <mailgrad/tests/support/http_client.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <system_error>

// What holds for every network between processes, also when a peer fails.

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;
using mailgrad::testing::http_client;

/// A way to carry sessions between processes.
struct network_kind {
  std::string name;
  /// Where anybody of this machine can listen: whatever is free.
  std::string any_address;
  /// A network whose connect() tries for so long.
  std::function<std::unique_ptr<network>(std::chrono::milliseconds patience)> make_patient;

  std::unique_ptr<network> make() const { return make_patient(10s); }
};

void PrintTo(const network_kind& k, std::ostream* out) { *out << k.name; }

network_kind tcp_kind(const std::string& name, const std::shared_ptr<const tls_keys>& keys) {
  return {name, "127.0.0.1:0", [keys](std::chrono::milliseconds patience) {
            return std::make_unique<tcp_network>(tcp_options{.patience = patience, .keys = keys});
          }};
}

const std::vector<network_kind>& network_kinds() {
  static const std::vector<network_kind> all = [] {
    const scratch_folder files;
    key_folder keys(files.path() / "keys");
    keys.make();
    const network_kind memory{"Memory", "memory:", [](std::chrono::milliseconds patience) {
                                return std::make_unique<memory_network>(memory_options{.patience = patience});
                              }};
    return std::vector{tcp_kind("Tcp", nullptr), tcp_kind("Tls", tls_keys::of_token(keys.token())), memory};
  }();
  return all;
}

std::string name_of_kind(const TestParamInfo<network_kind>& kind) { return kind.param.name; }

std::shared_ptr<const bytes> noise(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto all = std::make_shared<bytes>(size);
  for (std::byte& b : *all) b = static_cast<std::byte>(random());
  return all;
}

/// A server and clients, which have a network each side.
struct StreamNetworks : TestWithParam<network_kind> {
  void serve(server_options options = {}, std::atomic<int>* under_way = nullptr) {
    server.emplace(std::move(options));
    server->under_way = under_way;
    address = server->listen(*server_net, GetParam().any_address);
  }
  void join(std::size_t count = 1) {
    if (!server) serve();
    while (clients.size() < count) clients.emplace_back(*client_net);
    for (awaited_client& c : clients) {
      c.connect(address);
      ASSERT_TRUE(c.layers.wait_joined()) << c.layers.wait_ended();
    }
    guest = server->guest(0);
    ASSERT_TRUE(guest);
  }
  void give(const std::shared_ptr<const bytes>& body, std::size_t count) {
    for (awaited_client& c : clients)
      for (std::size_t i = 0; i < count; ++i) c.send_body("b", body);
  }

  const std::unique_ptr<network> server_net = GetParam().make(), client_net = GetParam().make();
  std::optional<awaited_server> server;
  std::deque<awaited_client> clients;
  awaited_client& client = clients.emplace_back(*client_net);
  awaited_layers* guest = nullptr;
  std::string address;
};

TEST_P(StreamNetworks, JoinsAndLeaves) {
  join();
  client.leave("enough");
  EXPECT_THAT(guest->wait_ended(), HasSubstr("says: enough"));
  EXPECT_EQ(client.layers.wait_ended(), "enough");
  EXPECT_EQ(client.layers.kept().ends.front().reason, end_reason::left);
}

TEST_P(StreamNetworks, IsLeftByTheServer) {
  join();
  server->leave_all("the run is over");
  EXPECT_THAT(client.layers.wait_ended(), HasSubstr("says: the run is over"));
}

TEST_P(StreamNetworks, CarriesMessagesInTheirOrder) {
  join();
  guest->echoes = true;
  std::vector<std::string> sent;
  for (std::size_t i = 1; i <= 1000; ++i) {
    client.send(sent.emplace_back(std::to_string(i - 1) + std::string(i - 1, 'x')));
    if (i % 32 == 0) { // both have credit for more
      ASSERT_TRUE(client.layers.wait_messages(i));
    }
  }
  ASSERT_TRUE(client.layers.wait_messages(sent.size()));
  EXPECT_EQ(client.layers.kept().messages, sent);
  EXPECT_EQ(guest->kept().messages, sent);
}

/// For longer than a peer may be silent, and than the system tries to get rid of bytes that it has taken.
TEST_P(StreamNetworks, LeavesABodyWithItsSenderUntilThereIsRoom) {
  std::atomic<bool> has_room{false};
  server_options options{.times = timing(100ms)}; // on a busy machine a thread may be late by as much
  options.has_room = [&](const member&) { return has_room.load(); };
  const instant silence = options.times.silence();
  serve(std::move(options));
  join();
  guest->echoes = true;
  const auto body = noise(8 << 20, 1);
  client.send_body("late", body);
  const instant begin = server_net->now();
  for (std::size_t round = 1; server_net->now() < begin + 2 * silence; ++round) {
    client.send("on the control connection");
    ASSERT_TRUE(client.layers.wait_messages(round));
  }
  EXPECT_EQ(guest->bodies(), 0U);
  has_room = true;
  server->post([](instant) {});
  ASSERT_TRUE(guest->wait_bodies(1)) << guest->wait_ended();
  EXPECT_TRUE(guest->kept().ends.empty());
  EXPECT_TRUE(guest->kept().bodies[0].second == as_text(*body));
}

TEST_P(StreamNetworks, TakesBodiesOfManyByTurnsWhereThereIsRoomForOne) {
  const auto under_way = std::make_shared<std::atomic<int>>(0); // the server asks it to its end
  // A sender whose segments the system drops tries again after up to twice as long, which is no silence yet.
  server_options options{.times = timing(250ms)};
  options.has_room = [under_way](const member&) { return *under_way == 0; };
  serve(std::move(options), under_way.get());
  join(8);
  const auto body = noise(700'003, 1);
  for (std::size_t round = 1; round <= 10 && !HasFailure(); ++round) {
    give(body, 1);
    for (std::size_t i = 0; i < clients.size() && !HasFailure(); ++i) {
      EXPECT_TRUE(server->guest(i)->wait_bodies(round)) << i << ": " << server->guest(i)->wait_ended();
    }
  }
}

/// Who was read first could be the first again. Whose bytes are still on their way when its turn comes lets
/// the next one pass, so somebody may be one body ahead of its round.
TEST_P(StreamNetworks, TakesBodiesOfAllByTurnsWhileEachHasMore) {
  constexpr std::size_t each = 8;
  const auto room = std::make_shared<room_for_bodies>(); // the server asks it to its end
  server_options options{.bodies = each};
  options.has_room = [room](const member&) { return room->has_room(); };
  serve(std::move(options), &room->under_way);
  join(3);
  for (std::size_t i = 0; i < clients.size(); ++i) room->guests.push_back(server->guest(i));
  room->allowed = 0;
  // More than is read before a body has its place, and all of them are on their way before the words.
  give(noise(100'003, 1), each);
  for (awaited_client& c : clients) c.send("the bodies are sent");
  for (awaited_layers* const g : room->guests)
    ASSERT_TRUE(g->wait_for([](auto& x) { return x.messages.size() == 1 && !x.holds.empty(); }));
  for (std::size_t round = 1; round <= each && !HasFailure(); ++round) {
    for (std::size_t i = 0; i < clients.size(); ++i) room->take_one(*server);
    for (awaited_layers* const g : room->guests) EXPECT_LE(g->bodies(), round + 1);
  }
}

/// However many wait. Else a server of a thousand workers would ask a million times for a body of each.
TEST_P(StreamNetworks, AsksForFewOfThoseThatWaitForRoom) {
  struct one_room {
    std::atomic<int> under_way{0};
    std::atomic<std::size_t> asked{0};
  };
  const auto room = std::make_shared<one_room>(); // the server asks it to its end
  server_options options{.times = timing(250ms)};
  options.has_room = [room](const member&) { return ++room->asked, room->under_way.load() == 0; };
  options.has_any_room = [room] { return room->under_way.load() == 0; };
  serve(std::move(options), &room->under_way);
  join(48);
  constexpr std::size_t each = 3;
  room->asked = 0;
  give(noise(100'003, 1), each);
  for (std::size_t i = 0; i < clients.size(); ++i) ASSERT_TRUE(server->guest(i)->wait_bodies(each)) << i;
  EXPECT_LT(room->asked.load(), 20 * each * clients.size()) << "each is read in a few pieces";
}

TEST_P(StreamNetworks, CarriesBodiesBothWaysAtOnce) {
  join();
  std::vector<std::pair<std::string, std::string>> sent;
  for (const std::size_t size :
       {0UL, 1UL, 43UL, 4096UL, 256UL << 10, (256UL << 10) + 1, 1UL << 20, (8UL << 20) - 3}) {
    const auto body = noise(size, size + 1);
    const std::string tag = "tag " + std::to_string(size);
    sent.emplace_back(tag, as_text(*body));
    client.send_body(tag, body);
    server->post([&](instant) { guest->own->send_body(bytes_of(tag), *body, body); });
    ASSERT_TRUE(client.layers.wait_bodies(sent.size()));
    ASSERT_TRUE(guest->wait_bodies(sent.size()));
  }
  EXPECT_TRUE(client.layers.kept().bodies == sent);
  EXPECT_TRUE(guest->kept().bodies == sent);
}

TEST_P(StreamNetworks, HoldsNoMoreThanTheCreditAllows) {
  serve({.messages = 4});
  join();
  guest->gives_credit = false;
  std::atomic<int> accepted = 0;
  for (int i = 0; i < 6; ++i)
    client.post([&](instant) { accepted += client.end.own().send(bytes_of("x")) ? 1 : 0; });
  ASSERT_TRUE(guest->wait_messages(4));
  server->post([&](instant) { guest->own->allow(4, 0); });
  ASSERT_TRUE(client.layers.wait_for([](auto& x) { return x.credits == 1; }));
  EXPECT_EQ(accepted, 4);
}

std::vector<int> open_sockets() {
  std::vector<int> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string what = std::filesystem::read_symlink(entry, gone).string();
    const int number = std::stoi(entry.path().filename().string());
    if (what.starts_with("socket:") && number > STDERR_FILENO) all.push_back(number);
  }
  return all;
}

TEST_P(StreamNetworks, GiveNoSocketToProgramsThatTheirProcessStarts) {
  join();
  const std::vector<int> sockets = open_sockets();
  EXPECT_THAT(sockets, SizeIs(Ge(5U))) << "a listener, and both ends of two connections";
  for (const int s : sockets) EXPECT_TRUE(fcntl(s, F_GETFD) & FD_CLOEXEC) << s;
}

TEST_P(StreamNetworks, TellTheServerWhereItsPeersComeFrom) {
  serve({.demands = demands_of({{"model", "aa"}}, {role::worker}, {})});
  join();
  const bool is_memory = address.starts_with("memory:");
  const std::string from = is_memory ? "process " + std::to_string(getpid()) : "127.0.0.1:";
  EXPECT_THAT(guest->from, StartsWith(from));
  EXPECT_NE(guest->from, address) << "the port is that of the peer";
  awaited_client other(*client_net, address, {.says = {{"model", "bb"}}});
  EXPECT_THAT(server->refused_from(0), StartsWith(from));
  EXPECT_TRUE(is_memory || server->refused_from(0) != guest->from) << "each connection has a port of its own";
}

TEST_P(StreamNetworks, TellsBothSidesWhyItRefuses) {
  serve({.demands = demands_of({{"model", "aa"}}, {role::worker}, {})});
  awaited_client other(*client_net, address, {.says = {{"model", "bb"}}});
  EXPECT_THAT(other.layers.wait_ended(), HasSubstr("model: expected aa, found bb"));
  EXPECT_EQ(other.layers.kept().ends.front().refused_for, refusal_code::model);
  EXPECT_THAT(server->refused(0), HasSubstr("model: expected aa, found bb"));
}

TEST_P(StreamNetworks, HoldsTheLimitOfConnections) {
  serve({.most_connections = 2});
  join();
  awaited_client other(*client_net, address);
  EXPECT_THAT(other.layers.wait_ended(), HasSubstr("connections: expected at most 2, found one more"));
  EXPECT_TRUE(guest->kept().ends.empty());
}

TEST_P(StreamNetworks, LetsAWorkerInAmongStrangersWhoSayNothing) {
  if (GetParam().name != "Tcp") GTEST_SKIP() << "the strangers connect by TCP";
  serve({.most_connections = 6});
  std::deque<http_client> strangers;
  for (int i = 0; i < 20; ++i) strangers.emplace_back(port_of(address));
  join();
  EXPECT_THAT(strangers.front().hear_out(), HasSubstr("at most 6"));
}

TEST_P(StreamNetworks, SaysWhatToDoWhereNobodyListens) {
  serve();
  server->forget();
  const auto net = GetParam().make_patient(20ms);
  awaited_client alone(*net, address);
  EXPECT_THAT(alone.layers.wait_ended(), StartsWith("server: cannot connect to " + address +
                                                    ": nobody listens there, tried for 0.02 s: start the "
                                                    "server"));
}

TEST_P(StreamNetworks, WaitsForAServerThatStartsLater) {
  serve();
  server->forget();
  client.connect(address);
  awaited_server later;
  later.listen(*server_net, address);
  EXPECT_TRUE(client.layers.wait_joined());
}

TEST_P(StreamNetworks, DoesNothingForWhomItDoesNotKnow) {
  bool done = false;
  client.post([&](instant) { done = true; });
  client.forget(); // waits for the thread
  EXPECT_FALSE(done);
}

TEST_P(StreamNetworks, RefusesWhatIsTakenAndWhoIsConnected) {
  serve();
  EXPECT_THROW(server_net->listen(server->end, "here"), std::invalid_argument);
  EXPECT_THROW(client_net->connect(client.end, "there"), std::invalid_argument);
  EXPECT_THROW(server_net->listen(server->end, address), std::system_error);
  join();
  EXPECT_THROW(client_net->connect(client.end, address), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Kinds, StreamNetworks, ValuesIn(network_kinds()), name_of_kind);

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
    const awaited_client client(*net, address);
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
struct StreamFaults : TestWithParam<network_kind> {
  void join(awaited_server& at, const std::string& where, std::size_t nth = 0) {
    client.emplace(*other, where);
    ASSERT_TRUE(client->layers.wait_joined());
    guest = at.guest(nth);
    ASSERT_TRUE(guest);
  }
  /// The thread of the client's network stands still until it wakes.
  void stand_still() {
    client->post([this](instant) { wakes.get_future().wait(); });
  }

  peer_process peer{GetParam()}; // before this process has threads
  const std::unique_ptr<network> net = GetParam().make(), other = GetParam().make();
  awaited_server server{{.times = timing{50ms}}};
  std::string address = server.listen(*net, GetParam().any_address);
  std::promise<void> wakes;
  std::optional<awaited_client> client;
  awaited_layers* guest = nullptr;
};

TEST_P(StreamFaults, NoticesAPeerThatIsSilent) {
  join(server, address);
  stand_still();
  EXPECT_THAT(guest->wait_ended(), HasSubstr("expected a sign of life each 50 ms, found none"));
  EXPECT_EQ(guest->kept().ends.front().reason, end_reason::silent);
  wakes.set_value();
  EXPECT_THAT(client->layers.wait_ended(), AnyOf(HasSubstr("says:"), HasSubstr("without a goodbye"),
                                                 HasSubstr("expected a sign of life")));
}

/// What is under way to it will never be read, and neither will the reason of the end.
TEST_P(StreamFaults, LetsAPeerGoThatReadsNothing) {
  constexpr std::uint32_t many = 500;
  awaited_server much{{.times = timing{50ms}, .messages = many}};
  join(much, much.listen(*net, GetParam().any_address));
  stand_still();
  much.post([&](instant) {
    for (std::uint32_t i = 0; i < many; ++i) guest->own->send(bytes(most_message_bytes));
  });
  EXPECT_NE(guest->wait_ended(), "");
  const instant until = net->now() + 10s;
  while (much.connections() > 0 && net->now() < until) std::this_thread::yield();
  EXPECT_EQ(much.connections(), 0U);
  wakes.set_value();
}

TEST_P(StreamFaults, ForgetsWhileTrafficRuns) {
  const auto body = std::make_shared<const bytes>(bytes(3 << 20, std::byte{1}));
  for (std::size_t round = 0; round < 30; ++round) {
    ASSERT_NO_FATAL_FAILURE(join(server, address, round));
    std::vector<std::jthread> senders;
    for (int t = 0; t < 2; ++t)
      senders.emplace_back([&] {
        for (int i = 0; i < 20; ++i)
          client->post([&](instant) {
            if (client->end.own().now_is() != session::state::joined) return;
            client->end.own().send(bytes_of("a"));
            client->end.own().send_body(bytes_of("b"), *body, body);
          });
      });
    std::promise<void> given; // before the client is gone, and the guest's session with it
    server.post([&](instant) {
      guest->own->send_body(bytes_of("c"), *body, body);
      given.set_value();
    });
    given.get_future().wait();
    senders.clear();
    client.reset();
    EXPECT_THAT(guest->wait_ended(), HasSubstr("closed without a goodbye"));
  }
}

TEST_P(StreamFaults, LeaveNothingBehind) {
  awaited_server calm; // takes nobody for dead on a busy machine
  const std::string there = calm.listen(*net, GetParam().any_address);
  const std::size_t before = open_files(), mapped = shared_maps();
  for (int i = 0; i < 200; ++i) {
    awaited_client leaving(*other, there);
    ASSERT_TRUE(leaving.layers.wait_joined());
    leaving.leave("enough");
    ASSERT_EQ(leaving.layers.wait_ended(), "enough");
  }
  while (open_files() > before || shared_maps() > mapped) std::this_thread::yield(); // the last ones wait
  EXPECT_EQ(open_files(), before);
  EXPECT_EQ(shared_maps(), mapped);
}

TEST_P(StreamFaults, AreNoticedAtOnceWhenAPeerIsKilled) {
  awaited_server slow{{.times = timing{5'000ms}}}; // so silence would take half a minute
  const std::size_t before = open_files(), mapped = shared_maps();
  peer.join(slow.listen(*net, GetParam().any_address));
  awaited_layers* killed = slow.guest(0);
  ASSERT_TRUE(killed);
  const instant then = net->now();
  peer.kill();
  EXPECT_THAT(killed->wait_ended(), HasSubstr("connection closed without a goodbye"));
  EXPECT_LT(net->now() - then, timing{5'000ms}.silence());
  EXPECT_EQ(killed->kept().ends.front().reason, end_reason::lost);
  slow.forget();
  while (open_files() > before || shared_maps() > mapped) std::this_thread::yield();
  EXPECT_EQ(shared_maps(), mapped);
}

INSTANTIATE_TEST_SUITE_P(Kinds, StreamFaults, ValuesIn(network_kinds()), name_of_kind);

} // namespace
} // namespace mailgrad::net
