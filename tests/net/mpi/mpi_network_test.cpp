#include <mailgrad/net/mpi/mpi_network.hpp>

#include <mailgrad/tests/net/awaited_layers.hpp>
#include <mailgrad/tests/net/mpi/played_mpi.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// A server on rank 0 and a client on rank 1, in one process.
struct MpiNetwork : testing::Test {
  void join() {
    net0->listen(server.end, "mpi:0");
    net1->connect(client.end, "mpi:0");
    ASSERT_TRUE(client.layers.wait_joined());
    guest = server.guest(0);
    ASSERT_TRUE(guest && guest->wait_joined());
  }
  void forget() {
    if (net1) net1->forget(client.end);
    if (net0) net0->forget(server.end);
  }
  /// The networks end at one moment, since each waits for the other.
  void end() {
    forget();
    std::thread other([this] { net1.reset(); });
    net0.reset();
    other.join();
  }
  void TearDown() override { end(); }

  played_world world{2};
  std::unique_ptr<mpi_network> net0 = std::make_unique<mpi_network>(world.rank(0));
  std::unique_ptr<mpi_network> net1 =
      std::make_unique<mpi_network>(world.rank(1), mpi_options{.patience = 60s});
  awaited_server server;
  awaited_client client{*net1};
  awaited_layers* guest = nullptr;
};

TEST_F(MpiNetwork, KnowsItsRank) {
  EXPECT_EQ(net1->rank(), 1);
  EXPECT_EQ(net1->size(), 2);
}

TEST_F(MpiNetwork, JoinsLeavesAndEndsMpiOnAllRanks) {
  join();
  net1->post(client.end, [&](instant now) { client.end.own().leave("enough", now); });
  EXPECT_THAT(guest->wait_ended(), HasSubstr("says: enough"));
  EXPECT_EQ(client.layers.wait_ended(), "enough");
  end();
  EXPECT_EQ(world.ended(), 2);
}

TEST_F(MpiNetwork, WaitsAtItsEndForTheOtherRanks) {
  join();
  forget();
  std::thread other([this] { net1.reset(); });
  while (world.coming_to_end() == 0) std::this_thread::yield();
  net0.reset();
  other.join();
  EXPECT_EQ(world.ended(), 2);
  EXPECT_EQ(world.ended_early(), 0);
}

TEST_F(MpiNetwork, SaysItsLastWordsBeforeItIsForgotten) {
  join();
  net0->post(server.end, [&](instant now) { server.end.leave_all("the run is over", now); });
  net0->forget(server.end);
  EXPECT_THAT(client.layers.wait_ended(), HasSubstr("says: the run is over"));
}

TEST_F(MpiNetwork, LetsAClientComeBeforeItsServer) {
  net1->connect(client.end, "mpi:0");
  net0->listen(server.end, "mpi:0");
  EXPECT_TRUE(client.layers.wait_joined());
}

TEST_F(MpiNetwork, CarriesBodiesAndMessagesInTheirOrder) {
  join();
  guest->echoes = true;
  std::vector<std::pair<std::string, std::string>> sent;
  for (const std::size_t size :
       {0UL, 1UL, 4095UL, 4096UL, 4097UL, 262'143UL, 262'144UL, 262'145UL, 3'000'001UL}) {
    std::string text(size, 'x');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + (i * 31 + i / 977) % 26);
    sent.emplace_back(std::to_string(size), text);
    const auto kept = std::make_shared<const std::string>(std::move(text));
    net1->post(client.end, [&, kept](instant) {
      client.end.own().send_body(bytes_of(sent.back().first), as_bytes(*kept), kept);
      client.end.own().send(bytes_of(std::string(kept->size() % 60'000, 'm')));
    });
    ASSERT_TRUE(guest->wait_for([&](auto& x) { return x.bodies.size() == sent.size(); }));
    ASSERT_TRUE(client.layers.wait_for([&](auto& x) { return x.messages.size() == sent.size(); }));
  }
  EXPECT_EQ(guest->kept().bodies, sent);
  EXPECT_EQ(guest->kept().messages, client.layers.kept().messages);
}

TEST_F(MpiNetwork, GivesUpWhereNobodyListens) {
  played_world two{2};
  auto there = std::make_unique<mpi_network>(two.rank(0));
  auto here = std::make_unique<mpi_network>(two.rank(1), mpi_options{.patience = 1ms});
  awaited_client alone{*here};
  here->connect(alone.end, "mpi:0");
  EXPECT_THAT(alone.layers.wait_ended(), HasSubstr("nobody listens at mpi:0"));
  here->forget(alone.end);
  std::thread other([&] { there.reset(); });
  here.reset();
  other.join();
}

TEST_F(MpiNetwork, FindsNobodyWhereAServerWas) {
  join();
  net0->forget(server.end);
  EXPECT_NE(client.layers.wait_ended(), "");
  awaited_client late{*net1};
  late.end.try_once();
  net1->connect(late.end, "mpi:0");
  EXPECT_THAT(late.layers.wait_ended(), HasSubstr("nobody listens at mpi:0 any more"));
  net1->forget(late.end);
}

TEST_F(MpiNetwork, EndsEverySessionWhenMpiFails) {
  join();
  world.fail();
  EXPECT_THAT(client.layers.wait_ended(), HasSubstr("a cable was cut"));
  EXPECT_THAT(guest->wait_ended(), HasSubstr("a cable was cut"));
}

TEST_F(MpiNetwork, DoesNotWaitForOthersOnceItIsAbandoned) {
  join();
  net1->forget(client.end);
  net1->abandon();
  net1.reset();
  EXPECT_EQ(world.ended(), 0);
  net0->forget(server.end);
  net0->abandon();
}

/// A server on rank 0 and a client on each other rank.
struct MpiRanks : testing::Test {
  MpiRanks() {
    for (int r = 0; r <= others; ++r) nets.push_back(std::make_unique<mpi_network>(world.rank(r)));
    nets[0]->listen(server.end, "mpi:0");
    for (int r = 1; r <= others; ++r) {
      clients.push_back(std::make_unique<awaited_client>(*nets[static_cast<std::size_t>(r)]));
      nets[static_cast<std::size_t>(r)]->connect(clients.back()->end, "mpi:0");
      EXPECT_TRUE(clients.back()->layers.wait_joined());
      guests.push_back(server.guest(guests.size()));
      EXPECT_TRUE(guests.back()->wait_joined());
    }
  }
  ~MpiRanks() override {
    for (std::size_t c = 0; c < clients.size(); ++c) nets[c + 1]->forget(clients[c]->end);
    nets[0]->forget(server.end);
    std::vector<std::thread> ends; // each waits for the others
    for (auto& net : nets) ends.emplace_back([&net] { net.reset(); });
    for (std::thread& t : ends) t.join();
  }
  server_options for_so_many() {
    server_options o;
    o.has_room = [this](const member&) {
      const std::size_t most = allowed;
      return most == any_number || came() < most;
    };
    return o;
  }
  /// Bodies that have come or are coming.
  std::size_t came() {
    auto all = static_cast<std::size_t>(under_way.load());
    for (awaited_layers* const g : guests) all += g->kept().bodies.size();
    return all;
  }

  static constexpr int others = 3;
  static constexpr std::size_t any_number = 1000;
  std::atomic<std::size_t> allowed{any_number};
  std::atomic<int> under_way{0};
  played_world world{others + 1};
  awaited_server server{for_so_many()};
  std::vector<std::unique_ptr<mpi_network>> nets;
  std::vector<std::unique_ptr<awaited_client>> clients;
  std::vector<awaited_layers*> guests;
};

TEST_F(MpiRanks, AreReadByTurnsWhereThereIsRoomForOneBody) {
  allowed = 0;
  for (auto* const g : guests) g->under_way = &under_way;
  for (std::size_t c = 0; c < clients.size(); ++c) {
    session& own = clients[c]->end.own();
    for (int i = 0; i < 3; ++i)
      nets[c + 1]->post(clients[c]->end, [&own](instant) { own.send_body(bytes_of("b"), {}, nullptr); });
    nets[c + 1]->post(clients[c]->end, [&own](instant) { own.send(bytes_of("the bodies are sent")); });
  }
  for (auto* const g : guests) ASSERT_TRUE(g->wait_for([](auto& x) { return x.messages.size() == 1; }));
  for (std::size_t round = 1; round <= 3; ++round) {
    for (std::size_t i = 0; i < guests.size(); ++i) {
      const std::size_t most = allowed + 1;
      nets[0]->post(server.end, [&, most](instant) { allowed = most; }); // between two turns
      while (came() != most || under_way != 0) std::this_thread::yield();
    }
    for (awaited_layers* const g : guests) EXPECT_EQ(g->kept().bodies.size(), round);
  }
}

/// The rank of a server, whose words are kept.
struct MpiEnd : testing::Test {
  void join() {
    net0->listen(server.end, "mpi:0");
    net1->connect(client.end, "mpi:0");
    ASSERT_TRUE(client.layers.wait_joined());
  }

  played_world world{2};
  std::promise<std::string> told;
  std::unique_ptr<mpi_network> net0 = std::make_unique<mpi_network>(
      world.rank(0), mpi_options{.on_wait = [this](const std::string& words) { told.set_value(words); }});
  std::unique_ptr<mpi_network> net1 = std::make_unique<mpi_network>(world.rank(1));
  awaited_server server;
  awaited_client client{*net1};
};

TEST_F(MpiEnd, WaitsForNoRankThatStandsStill) {
  join();
  std::promise<void> stands, wakes;
  net1->post(client.end, [&](instant) {
    stands.set_value();
    wakes.get_future().wait();
  });
  stands.get_future().wait(); // or it might still answer
  net0->forget(server.end);
  net0.reset();
  EXPECT_THAT(told.get_future().get(), HasSubstr("waits no longer for a rank that was lost"));
  EXPECT_EQ(world.ended(), 0);
  wakes.set_value();
  net1->forget(client.end);
  net1->abandon();
}

TEST_F(MpiEnd, SaysThatItWaitsForTheOthers) {
  join();
  net0->post(server.end, [&](instant now) { server.end.leave_all("the run is over", now); });
  net0->forget(server.end);
  client.layers.wait_ended();
  net1->forget(client.end);
  std::thread other([this] { net0.reset(); });
  EXPECT_THAT(told.get_future().get(), HasSubstr("waits until all others have"));
  net1.reset();
  other.join();
  EXPECT_EQ(world.ended(), 2);
}

TEST_F(MpiNetwork, RefusesWhatIsNoAddressOfItsOwn) {
  EXPECT_THROW(net1->listen(server.end, "mpi:0"), std::invalid_argument);
  EXPECT_THROW(net1->connect(client.end, "mpi:2"), std::invalid_argument);
  EXPECT_THROW(net1->connect(client.end, "127.0.0.1:1"), std::invalid_argument);
  EXPECT_THROW(mpi_network(world.rank(0), {.spin = -1us}), std::invalid_argument);
  EXPECT_THROW(mpi_network(world.rank(0), {.patience = -1ms}), std::invalid_argument);
}

/// A peer that breaks the rules: a message of any size, on the tags of a connection.
TEST_F(MpiNetwork, LosesAConnectionWhoseMessageIsLargerThanAnyFrame) {
  net0->listen(server.end, "mpi:0");
  const auto rude = world.rank(1);
  net1->abandon();
  net1.reset();
  bytes greeting;
  frame_writer(greeting).u32(0x6970'676d).u8(1).u32(1);
  rude->send(0, 0, greeting);
  const bytes large(frame_header_bytes + most_piece_bytes + 1);
  rude->send(0, 2, large);
  while (!rude->look(0, 3)) std::this_thread::yield();
  EXPECT_EQ(rude->look(0, 3)->bytes, 0U); // the end, and no more
  net0->abandon();
}

TEST_F(MpiNetwork, FailsByAGreetingThatIsNone) {
  join();
  const auto rude = world.rank(1);
  rude->send(0, 0, bytes(9));
  EXPECT_THAT(guest->wait_ended(), HasSubstr("expected a greeting of Mailgrad"));
  net0->abandon();
  net1->abandon();
}

} // namespace
} // namespace mailgrad::net
