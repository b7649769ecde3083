#include <mailgrad/tests/net/awaited_layers.hpp>
#include <mailgrad/tests/net/stream/network_kinds.hpp>
#include <mailgrad/tests/support/http_client.hpp>

#include <gmock/gmock.h>

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

// What holds for every network between processes.

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

/// A server and a client that have a network each.
struct StreamNetworks : testing::TestWithParam<network_kind> {
  void serve(server_options options = {}) {
    server.emplace(std::move(options));
    address = server_net->listen(server->end, GetParam().any_address);
  }
  void join() {
    if (!server) serve();
    client_net->connect(client.end, address);
    ASSERT_TRUE(client.layers.wait_joined()) << client.layers.wait_ended();
    guest = server->guest(0);
    ASSERT_TRUE(guest && guest->wait_joined());
  }
  void send(network& net, endpoint& e, session& s, std::string text) {
    net.post(e, [&s, text = std::move(text)](instant) { s.send(bytes_of(text)); });
  }
  void TearDown() override {
    client_net->forget(client.end);
    if (server) server_net->forget(server->end);
  }

  const std::unique_ptr<network> server_net = GetParam().make(), client_net = GetParam().make();
  std::optional<awaited_server> server;
  awaited_client client{*client_net};
  awaited_layers* guest = nullptr;
  std::string address;
};

bytes noise(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  bytes all(size);
  for (std::byte& b : all) b = static_cast<std::byte>(random());
  return all;
}

TEST_P(StreamNetworks, JoinsAndLeaves) {
  join();
  client_net->post(client.end, [&](instant now) { client.end.own().leave("enough", now); });
  EXPECT_THAT(guest->wait_ended(), HasSubstr("says: enough"));
  EXPECT_EQ(client.layers.wait_ended(), "enough");
  EXPECT_EQ(client.layers.kept().ends.front().reason, end_reason::left);
}

TEST_P(StreamNetworks, IsLeftByTheServer) {
  join();
  server_net->post(server->end, [&](instant now) { server->end.leave_all("the run is over", now); });
  EXPECT_THAT(client.layers.wait_ended(), HasSubstr("says: the run is over"));
}

TEST_P(StreamNetworks, CarriesMessagesInTheirOrder) {
  join();
  constexpr int count = 1000;
  guest->echoes = true;
  std::vector<std::string> sent;
  for (int i = 0; i < count; ++i)
    sent.push_back(std::to_string(i) + std::string(static_cast<std::size_t>(i), 'x'));
  for (int i = 0; i < count; ++i) {
    send(*client_net, client.end, client.end.own(), sent[static_cast<std::size_t>(i)]);
    if (i % 32 != 31) continue; // both have credit for more
    ASSERT_TRUE(client.layers.wait_for([&](auto& x) { return x.messages.size() == std::size_t(i) + 1; }));
  }
  ASSERT_TRUE(client.layers.wait_for([&](auto& x) { return x.messages.size() == count; }));
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
  const auto body = std::make_shared<const bytes>(noise(8 << 20, 1));
  client_net->post(client.end, [&](instant) { client.end.own().send_body(bytes_of("late"), *body, body); });
  const instant begin = server_net->now();
  for (std::size_t round = 1; server_net->now() < begin + 2 * silence; ++round) {
    send(*client_net, client.end, client.end.own(), "on the control connection");
    ASSERT_TRUE(client.layers.wait_for([&](auto& x) { return x.messages.size() == round; }));
  }
  EXPECT_THAT(guest->kept().bodies, SizeIs(0));
  has_room = true;
  server_net->post(server->end, [](instant) {});
  ASSERT_TRUE(guest->wait_for([](auto& x) { return x.bodies.size() == 1 || !x.ends.empty(); }));
  ASSERT_THAT(guest->kept().ends, SizeIs(0)) << guest->kept().ends[0].words;
  EXPECT_TRUE(guest->kept().bodies[0].second == as_text(*body));
}

TEST_P(StreamNetworks, TakesBodiesOfManyByTurnsWhereThereIsRoomForOne) {
  std::atomic<int> under_way{0};
  // A sender whose segments the system drops tries again after up to twice as long, which is no silence yet.
  server_options options{.times = timing(250ms)};
  options.has_room = [&](const member&) { return under_way.load() == 0; };
  serve(std::move(options));
  server->under_way = &under_way;
  join();
  constexpr std::size_t others = 7, each = 10;
  std::vector<std::unique_ptr<awaited_client>> more;
  for (std::size_t i = 0; i < others; ++i) {
    client_net->connect(more.emplace_back(std::make_unique<awaited_client>(*client_net))->end, address);
    ASSERT_TRUE(more.back()->layers.wait_joined());
  }
  const auto body = std::make_shared<const bytes>(noise(700'003, 1));
  const auto give = [&](awaited_client& c) {
    client_net->post(c.end, [&](instant) { c.end.own().send_body(bytes_of("b"), *body, body); });
  };
  const auto came = [&](std::size_t nth, std::size_t count) {
    bool all = false;
    server->guest(nth)->wait_for(
        [&](auto& x) { return (all = x.bodies.size() == count) || !x.ends.empty(); });
    return all ? testing::AssertionSuccess()
               : testing::AssertionFailure() << nth << ": " << server->guest(nth)->wait_ended();
  };
  for (std::size_t round = 1; round <= each && !HasFailure(); ++round) {
    give(client);
    for (const auto& c : more) give(*c);
    for (std::size_t i = 0; i <= others && !HasFailure(); ++i) EXPECT_TRUE(came(i, round));
  }
  for (const auto& c : more) client_net->forget(c->end);
}

/// Room for so many bodies, which guests of a server share.
struct room_for_bodies {
  static constexpr std::size_t any_number = 1000;

  /// Bodies that have come or are coming.
  std::size_t came() const {
    auto all = static_cast<std::size_t>(under_way.load());
    for (awaited_layers* const g : guests) all += g->kept().bodies.size();
    return all;
  }
  bool has_room() const { return allowed == any_number || came() < allowed; }

  std::atomic<std::size_t> allowed{any_number};
  std::atomic<int> under_way{0};
  std::vector<awaited_layers*> guests;
};

/// Each of them has more to send at once, so that who was read first could be the first again. Whose bytes
/// are still on their way when its turn comes lets the next one pass, so somebody may be one body ahead of
/// its round.
TEST_P(StreamNetworks, TakesBodiesOfAllByTurnsWhileEachHasMore) {
  constexpr std::size_t each = 8;
  const auto room = std::make_shared<room_for_bodies>(); // the server asks it to its end
  server_options options{.bodies = each};
  options.has_room = [room](const member&) { return room->has_room(); };
  serve(std::move(options));
  server->under_way = &room->under_way;
  join();
  std::vector<std::unique_ptr<awaited_client>> more;
  for (std::size_t i = 1; i <= 2; ++i) {
    client_net->connect(more.emplace_back(std::make_unique<awaited_client>(*client_net))->end, address);
    ASSERT_TRUE(more.back()->layers.wait_joined());
  }
  for (std::size_t i = 0; i <= more.size(); ++i) {
    room->guests.push_back(server->guest(i));
    ASSERT_TRUE(room->guests.back()->wait_joined());
  }
  room->allowed = 0;
  // More than is read before a body has its place, and all of them are on their way before the words.
  const auto body = std::make_shared<const bytes>(noise(100'003, 1));
  const auto give = [&](awaited_client& c) {
    for (std::size_t i = 0; i < each; ++i)
      client_net->post(c.end, [&](instant) { c.end.own().send_body(bytes_of("b"), *body, body); });
    send(*client_net, c.end, c.end.own(), "the bodies are sent");
  };
  give(client);
  for (const auto& c : more) give(*c);
  for (awaited_layers* const g : room->guests)
    ASSERT_TRUE(g->wait_for([](auto& x) { return x.messages.size() == 1 && !x.holds.empty(); }));
  for (std::size_t round = 1; round <= each && !HasFailure(); ++round) {
    for (std::size_t i = 0; i < room->guests.size(); ++i) {
      const std::size_t most = room->allowed + 1;
      server_net->post(server->end, [room, most](instant) { room->allowed = most; });
      while (room->came() < most || room->under_way > 0) std::this_thread::yield();
    }
    for (awaited_layers* const g : room->guests) EXPECT_LE(g->kept().bodies.size(), round + 1);
  }
  for (const auto& c : more) client_net->forget(c->end);
}

/// However many of them wait. Else a server of a thousand workers would ask a million times for a body of
/// each.
TEST_P(StreamNetworks, AsksForFewOfThoseThatWaitForRoom) {
  struct one_room {
    std::atomic<int> under_way{0};
    std::atomic<std::size_t> asked{0};
  };
  const auto room = std::make_shared<one_room>(); // the server asks it to its end
  server_options options{.times = timing(250ms)};
  options.has_room = [room](const member&) { return ++room->asked, room->under_way.load() == 0; };
  options.has_any_room = [room] { return room->under_way.load() == 0; };
  serve(std::move(options));
  server->under_way = &room->under_way;
  join();
  constexpr std::size_t others = 47, each = 3;
  std::vector<std::unique_ptr<awaited_client>> more;
  for (std::size_t i = 0; i < others; ++i) {
    client_net->connect(more.emplace_back(std::make_unique<awaited_client>(*client_net))->end, address);
    ASSERT_TRUE(more.back()->layers.wait_joined());
  }
  const auto body = std::make_shared<const bytes>(noise(100'003, 1));
  const auto give = [&](awaited_client& c) {
    for (std::size_t i = 0; i < each; ++i)
      client_net->post(c.end, [&](instant) { c.end.own().send_body(bytes_of("b"), *body, body); });
  };
  room->asked = 0;
  give(client);
  for (const auto& c : more) give(*c);
  for (std::size_t i = 0; i <= others; ++i)
    ASSERT_TRUE(server->guest(i)->wait_for([](auto& x) { return x.bodies.size() == each; })) << i;
  constexpr std::size_t bodies = each * (others + 1);
  EXPECT_LT(room->asked.load(), 20 * bodies) << "each is read in a few pieces";
  for (const auto& c : more) client_net->forget(c->end);
}

TEST_P(StreamNetworks, CarriesBodiesBothWaysAtOnce) {
  join();
  const std::vector<std::size_t> sizes{0, 1, 43, 4096, 256 << 10, (256 << 10) + 1, 1 << 20, (8 << 20) - 3};
  std::vector<std::pair<std::string, std::string>> sent;
  for (const std::size_t size : sizes) {
    const auto body = std::make_shared<const bytes>(noise(size, size + 1));
    sent.emplace_back("tag " + std::to_string(size), std::string(as_text(*body)));
    const auto give = [&](session& s) { s.send_body(bytes_of(sent.back().first), *body, body); };
    client_net->post(client.end, [&](instant) { give(client.end.own()); });
    server_net->post(server->end, [&](instant) { give(*guest->own); });
    const auto came = [&](auto& x) { return x.bodies.size() == sent.size(); };
    ASSERT_TRUE(client.layers.wait_for(came));
    ASSERT_TRUE(guest->wait_for(came));
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
    client_net->post(client.end, [&](instant) { accepted += client.end.own().send(bytes_of("x")) ? 1 : 0; });
  ASSERT_TRUE(guest->wait_for([](auto& x) { return x.messages.size() == 4; }));
  server_net->post(server->end, [&](instant) { guest->own->allow(4, 0); });
  ASSERT_TRUE(client.layers.wait_for([](auto& x) { return x.credits == 1; }));
  EXPECT_EQ(accepted, 4);
}

/// The numbers of open sockets, beyond the standard streams.
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
  EXPECT_THAT(sockets, SizeIs(testing::Ge(5U))) << "a listener, and both ends of two connections";
  for (const int s : sockets) EXPECT_TRUE(fcntl(s, F_GETFD) & FD_CLOEXEC) << s;
}

TEST_P(StreamNetworks, TellTheServerWhereItsPeersComeFrom) {
  serve({.demands = demands_of({{"model", "aa"}}, {role::worker}, {})});
  join();
  const bool is_memory = address.starts_with("memory:");
  const std::string from = is_memory ? "process " + std::to_string(getpid()) : "127.0.0.1:";
  EXPECT_THAT(guest->from, StartsWith(from));
  EXPECT_NE(guest->from, address) << "the port is that of the peer";
  awaited_client other(*client_net, {.says = {{"model", "bb"}}});
  client_net->connect(other.end, address);
  EXPECT_THAT(server->refused_from(0), StartsWith(from));
  EXPECT_TRUE(is_memory || server->refused_from(0) != guest->from) << "each connection has a port of its own";
  client_net->forget(other.end);
}

TEST_P(StreamNetworks, TellsBothSidesWhyItRefuses) {
  serve({.demands = demands_of({{"model", "aa"}}, {role::worker}, {})});
  awaited_client other(*client_net, {.says = {{"model", "bb"}}});
  client_net->connect(other.end, address);
  EXPECT_THAT(other.layers.wait_ended(), HasSubstr("model: expected aa, found bb"));
  EXPECT_EQ(other.layers.kept().ends.front().refused_for, refusal_code::model);
  EXPECT_THAT(server->refused(0), HasSubstr("model: expected aa, found bb"));
  client_net->forget(other.end);
}

TEST_P(StreamNetworks, HoldsTheLimitOfConnections) {
  serve({.most_connections = 2});
  join();
  awaited_client other(*client_net);
  client_net->connect(other.end, address);
  EXPECT_THAT(other.layers.wait_ended(), HasSubstr("connections: expected at most 2, found one more"));
  client_net->forget(other.end);
  EXPECT_TRUE(guest->kept().ends.empty());
}

TEST_P(StreamNetworks, LetsAWorkerInAmongStrangersWhoSayNothing) {
  if (GetParam().name != "Tcp") GTEST_SKIP() << "the strangers connect by TCP";
  serve({.most_connections = 6});
  std::vector<std::unique_ptr<testing::http_client>> strangers;
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  for (int i = 0; i < 20; ++i) strangers.push_back(std::make_unique<testing::http_client>(port));
  join();
  EXPECT_THAT(strangers.front()->hear_out(), HasSubstr("at most 6"));
}

TEST_P(StreamNetworks, SaysWhatToDoWhereNobodyListens) {
  serve();
  server_net->forget(server->end);
  const auto net = GetParam().make_patient(20ms);
  awaited_client alone(*net);
  net->connect(alone.end, address);
  EXPECT_THAT(alone.layers.wait_ended(), StartsWith("server: cannot connect to " + address +
                                                    ": nobody listens there, tried for 0.02 s: start the "
                                                    "server"));
  net->forget(alone.end);
}

TEST_P(StreamNetworks, WaitsForAServerThatStartsLater) {
  serve();
  server_net->forget(server->end);
  client_net->connect(client.end, address);
  awaited_server later;
  server_net->listen(later.end, address);
  EXPECT_TRUE(client.layers.wait_joined());
  client_net->forget(client.end);
  server_net->forget(later.end);
}

TEST_P(StreamNetworks, DoesNothingForWhomItDoesNotKnow) {
  bool done = false;
  client_net->post(client.end, [&](instant) { done = true; });
  client_net->forget(client.end); // waits for the thread
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

INSTANTIATE_TEST_SUITE_P(Kinds, StreamNetworks, testing::ValuesIn(network_kinds()),
                         [](const auto& kind) { return kind.param.name; });

} // namespace
} // namespace mailgrad::net
