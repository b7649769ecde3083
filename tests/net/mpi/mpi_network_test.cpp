#include <mailgrad/net/mpi/mpi_network.hpp>

#include <mailgrad/net/mpi/mpi_sums.hpp>
#include <mailgrad/tests/net/awaited_layers.hpp>

#include <gmock/gmock.h>

#include <deque>
#include <optional>
#include <span>
#include <stdexcept>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

/// Ranks of one process that talk as those of MPI do: messages of one tag keep their order, a small one is
/// copied when it is sent, and a large one is read from where it lies when it is received.
///
/// Threads any.
class played_world {
public:
  explicit played_world(int size) : size_(size) {}

  std::unique_ptr<mpi_calls> rank(int number) { return std::make_unique<one>(*this, number); }
  void fail() { fails_ = true; }
  int ended() const { return ended_; }
  /// How many of them have not waited until all had come to their end.
  int ended_early() const { return ended_early_; }
  int coming_to_end() {
    const std::lock_guard guard(mutex_);
    return coming_to_end_;
  }

private:
  using flag = std::shared_ptr<std::atomic<bool>>;
  struct message {
    int from = 0;
    byte_view data;
    bytes copy;
    flag gone;

    byte_view content() const { return data.empty() ? byte_view{copy} : data; }
  };
  struct part {
    std::span<float> values;
    flag gone;
  };

  class one final : public mpi_calls {
  public:
    one(played_world& world, int number) : world_(&world), number_(number) {}

    place begin() override { return {number_, world_->size_}; }
    request send(int to, int tag, byte_view data) override {
      const auto guard = entered();
      const flag gone = begun();
      message m{number_, data, {}, gone};
      if (data.size() <= eager_bytes) {
        m.copy.assign(data.begin(), data.end());
        m.data = {};
        *gone = true;
      }
      world_->boxes_[{to, tag}].push_back(std::move(m));
      return last_;
    }
    bool is_done(request& r) override {
      const auto guard = entered();
      if (r == end_request) return world_->coming_to_end_ == world_->size_;
      if (!*under_way_.at(r)) return false;
      under_way_.erase(r);
      return true;
    }
    /// Lets every rank wait until the last of them has come.
    request begin_sum(std::span<float> values) override {
      const auto guard = entered();
      auto& parts = world_->sums_[begun_sums_++];
      parts[number_] = {values, begun()};
      if (std::ssize(parts) == world_->size_ - 1) add_up(parts);
      return last_;
    }
    std::optional<waiting> look(int from, int tag) override {
      const auto guard = entered();
      for (const message& m : world_->boxes_[{number_, tag}])
        if (from == anybody || m.from == from) return waiting{m.from, m.content().size()};
      return std::nullopt;
    }
    void receive(int from, int tag, std::span<std::byte> to) override {
      const auto guard = entered();
      auto& box = world_->boxes_[{number_, tag}];
      const auto found = std::ranges::find(box, from, &message::from);
      if (found == box.end() || found->content().size() != to.size())
        throw std::logic_error("played MPI: received what look() has not found");
      std::ranges::copy(found->content(), to.begin());
      *found->gone = true;
      box.erase(found);
    }
    request begin_end() override {
      const auto guard = entered();
      ++world_->coming_to_end_;
      return end_request;
    }
    void end() override {
      const auto guard = entered();
      if (world_->coming_to_end_ < world_->size_) ++world_->ended_early_;
      ++world_->ended_;
    }

  private:
    static constexpr request end_request = 0;

    std::unique_lock<std::mutex> entered() {
      if (world_->fails_) throw std::runtime_error("MPI: a cable was cut");
      return std::unique_lock(world_->mutex_);
    }
    flag begun() { return under_way_[++last_] = std::make_shared<std::atomic<bool>>(false); }

    played_world* world_;
    int number_;
    request last_ = end_request;
    std::size_t begun_sums_ = 0;
    std::map<request, flag> under_way_;
  };

  /// In the order of ranks, so that it has the same bits each time.
  static void add_up(const std::map<int, part>& parts) {
    std::vector<float> whole(parts.begin()->second.values.size());
    for (const auto& [rank, p] : parts) {
      if (p.values.size() != whole.size()) throw std::logic_error("played MPI: a sum of two sizes");
      for (std::size_t i = 0; i < whole.size(); ++i) whole[i] += p.values[i];
    }
    for (const auto& [rank, p] : parts) {
      std::ranges::copy(whole, p.values.begin());
      *p.gone = true;
    }
  }

  static constexpr std::size_t eager_bytes = 1024;

  const int size_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::deque<message>> boxes_; ///< of a rank and a tag
  std::map<std::size_t, std::map<int, part>> sums_;          ///< by their number and the rank
  int coming_to_end_ = 0;
  std::atomic<int> ended_{0}, ended_early_{0};
  std::atomic<bool> fails_{false};
};

/// A server on rank 0 and a client on rank 1, in one process.
struct MpiNetwork : Test {
  void join() {
    server.listen(*net0, "mpi:0");
    client.connect("mpi:0");
    ASSERT_TRUE(client.layers.wait_joined());
    guest = server.guest(0);
    ASSERT_TRUE(guest);
  }
  void forget() {
    client.forget();
    server.forget();
  }
  /// The networks end at one moment, since each waits for the other.
  void end() {
    forget();
    const std::jthread other([this] { net1.reset(); });
    net0.reset();
  }
  void TearDown() override { end(); }

  played_world world{2};
  std::promise<std::string> told;
  std::unique_ptr<mpi_network> net0 = std::make_unique<mpi_network>(
      world.rank(0), mpi_options{.on_wait = [this](const std::string& words) { told.set_value(words); }});
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
  client.leave("enough");
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
  server.leave_all("the run is over");
  server.forget();
  EXPECT_THAT(client.layers.wait_ended(), HasSubstr("says: the run is over"));
}

TEST_F(MpiNetwork, LetsAClientComeBeforeItsServer) {
  client.connect("mpi:0");
  server.listen(*net0, "mpi:0");
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
    client.post([&, kept](instant) {
      client.end.own().send_body(bytes_of(sent.back().first), as_bytes(*kept), kept);
      client.end.own().send(bytes_of(std::string(kept->size() % 60'000, 'm')));
    });
    ASSERT_TRUE(guest->wait_bodies(sent.size()));
    ASSERT_TRUE(client.layers.wait_messages(sent.size()));
  }
  EXPECT_EQ(guest->kept().bodies, sent);
  EXPECT_EQ(guest->kept().messages, client.layers.kept().messages);
}

TEST_F(MpiNetwork, GivesUpWhereNobodyListens) {
  played_world two{2};
  auto there = std::make_unique<mpi_network>(two.rank(0));
  auto here = std::make_unique<mpi_network>(two.rank(1), mpi_options{.patience = 1ms});
  awaited_client alone(*here, "mpi:0");
  EXPECT_THAT(alone.layers.wait_ended(), HasSubstr("nobody listens at mpi:0"));
  alone.forget();
  const std::jthread other([&] { there.reset(); });
  here.reset();
}

TEST_F(MpiNetwork, FindsNobodyWhereAServerWas) {
  join();
  server.forget();
  EXPECT_NE(client.layers.wait_ended(), "");
  awaited_client late{*net1};
  late.end.try_once();
  late.connect("mpi:0");
  EXPECT_THAT(late.layers.wait_ended(), HasSubstr("nobody listens at mpi:0 any more"));
}

TEST_F(MpiNetwork, EndsEverySessionWhenMpiFails) {
  join();
  world.fail();
  EXPECT_THAT(client.layers.wait_ended(), HasSubstr("a cable was cut"));
  EXPECT_THAT(guest->wait_ended(), HasSubstr("a cable was cut"));
}

TEST_F(MpiNetwork, DoesNotWaitForOthersOnceItIsAbandoned) {
  join();
  client.forget();
  net1->abandon();
  net1.reset();
  EXPECT_EQ(world.ended(), 0);
  server.forget();
  net0->abandon();
}

using MpiEnd = MpiNetwork;

TEST_F(MpiEnd, WaitsForNoRankThatStandsStill) {
  join();
  std::promise<void> stands, wakes;
  client.post([&](instant) {
    stands.set_value();
    wakes.get_future().wait();
  });
  stands.get_future().wait(); // or it might still answer
  server.forget();
  net0.reset();
  EXPECT_THAT(told.get_future().get(), HasSubstr("waits no longer for a rank that was lost"));
  EXPECT_EQ(world.ended(), 0);
  wakes.set_value();
  client.forget();
  net1->abandon();
}

TEST_F(MpiEnd, SaysThatItWaitsForTheOthers) {
  join();
  server.leave_all("the run is over");
  server.forget();
  client.layers.wait_ended();
  client.forget();
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
  server.listen(*net0, "mpi:0");
  client.forget();
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

std::vector<std::unique_ptr<mpi_network>> networks_of(played_world& world, int ranks) {
  std::vector<std::unique_ptr<mpi_network>> nets;
  for (int r = 0; r < ranks; ++r) nets.push_back(std::make_unique<mpi_network>(world.rank(r)));
  return nets;
}

/// A server on rank 0 and a client on each other rank.
struct MpiRanks : Test {
  MpiRanks() {
    server.under_way = &room.under_way;
    server.listen(*nets[0], "mpi:0");
    for (std::size_t r = 1; r < nets.size(); ++r) {
      clients.emplace_back(*nets[r], "mpi:0");
      EXPECT_TRUE(clients.back().layers.wait_joined());
      room.guests.push_back(server.guest(r - 1));
    }
  }
  ~MpiRanks() override {
    clients.clear();
    server.forget();
    std::vector<std::jthread> ends; // each waits for the others
    for (auto& net : nets) ends.emplace_back([&net] { net.reset(); });
  }

  room_for_bodies room;
  played_world world{4};
  std::vector<std::unique_ptr<mpi_network>> nets = networks_of(world, 4);
  awaited_server server{{.has_room = [this](const member&) { return room.has_room(); }}};
  std::deque<awaited_client> clients;
};

TEST_F(MpiRanks, AreReadByTurnsWhereThereIsRoomForOneBody) {
  room.allowed = 0;
  for (awaited_client& c : clients) {
    for (int i = 0; i < 3; ++i) c.send_body("b", std::make_shared<const bytes>());
    c.send("the bodies are sent");
  }
  for (auto* const g : room.guests) ASSERT_TRUE(g->wait_messages(1));
  for (std::size_t round = 1; round <= 3; ++round) {
    for (std::size_t i = 0; i < clients.size(); ++i) room.take_one(server);
    for (auto* const g : room.guests) EXPECT_EQ(g->bodies(), round);
  }
}

using givers = all_reduce::givers;

/// A rank that takes its turns when it is told.
struct one_rank {
  one_rank(played_world& world, int rank, int size)
      : mpi(world.rank(rank)), sums(*mpi, {rank, size}, 2), values(2) {}

  void give(float a, float b) {
    values = {a, b};
    sums.add({values, {}, [this](const givers& who) { told.push_back(who); }});
  }

  std::unique_ptr<mpi_calls> mpi;
  mpi_sums sums;
  std::vector<float> values;
  std::vector<givers> told;
};

/// Three workers, which are the ranks 1 to 3.
struct MpiSums : Test {
  void turn() {
    for (int i = 0; i < 4; ++i)
      for (one_rank* r : {&a, &b, &c}) r->sums.turn();
  }

  played_world world{4};
  one_rank a{world, 1, 4}, b{world, 2, 4}, c{world, 3, 4};
};

TEST_F(MpiSums, GiveEveryRankTheSameSumAndTheSameGivers) {
  a.give(1, 10);
  b.give(2, 20);
  turn();
  EXPECT_TRUE(a.told.empty()); // the third is missing
  c.give(4, 40);
  turn();
  for (const one_rank* r : {&a, &b, &c}) {
    EXPECT_THAT(r->values, ElementsAre(7, 70));
    EXPECT_THAT(r->told, ElementsAre(givers{true, true, true}));
  }
}

TEST_F(MpiSums, GoOnWithoutARankThatHasLeft) {
  for (one_rank* r : {&a, &b, &c}) r->give(1, 1);
  turn();
  b.sums.leave();
  for (int round = 0; round < 3; ++round) {
    a.give(3, 4);
    c.give(5, 6);
    turn();
    EXPECT_THAT(a.values, ElementsAre(8, 10));
    EXPECT_EQ(a.told.back(), (givers{true, false, true}));
    EXPECT_EQ(c.told.back(), (givers{true, false, true}));
  }
  EXPECT_EQ(b.told.size(), 1U);
  EXPECT_FALSE(b.sums.is_over());
}

TEST_F(MpiSums, AreOverForAllRanksInTheRoundInWhichNobodyGives) {
  a.sums.leave();
  b.give(1, 2);
  c.give(3, 4);
  turn();
  EXPECT_THAT(b.values, ElementsAre(4, 6));
  b.sums.leave();
  turn();
  EXPECT_FALSE(a.sums.is_over() || b.sums.is_over());
  c.sums.leave();
  turn();
  for (one_rank* r : {&a, &b, &c}) {
    EXPECT_TRUE(r->sums.is_over());
    EXPECT_FALSE(r->sums.is_under_way());
  }
}

TEST_F(MpiSums, AreOverWithoutANumberIfNobodyEverGave) {
  for (one_rank* r : {&a, &b, &c}) r->sums.leave();
  turn();
  for (one_rank* r : {&a, &b, &c}) EXPECT_TRUE(r->sums.is_over());
}

TEST_F(MpiSums, LetARankLeaveWhoseNumbersAreUnderWay) {
  a.give(1, 1);
  a.sums.leave();
  b.give(2, 2);
  c.give(3, 3);
  turn();
  EXPECT_EQ(b.told.back(), (givers{true, true, true}));
  EXPECT_THAT(b.values, ElementsAre(6, 6));
  b.give(2, 2);
  c.give(3, 3);
  turn();
  EXPECT_EQ(b.told.back(), (givers{false, true, true}));
  EXPECT_THAT(b.values, ElementsAre(5, 5));
}

TEST_F(MpiSums, RefuseNumbersBesideOthersAndAfterTheEnd) {
  a.give(1, 1);
  EXPECT_THROW(a.give(1, 1), std::runtime_error);
  b.sums.leave();
  EXPECT_THROW(b.give(1, 1), std::runtime_error);
}

/// A server and two workers, each with a thread of its own.
struct MpiNetworkSums : Test {
  /// On a thread of its own, since each waits for the others.
  void end(std::size_t rank) {
    ends.emplace_back([net = std::move(nets[rank])]() mutable { net.reset(); });
  }
  void TearDown() override {
    for (std::size_t r = 0; r < nets.size(); ++r) end(r);
    ends.clear();
    EXPECT_EQ(world.ended_early(), 0);
  }
  /// Gives `value` to a round and returns the sum when it is there.
  static std::future<float> give(all_reduce& to, float value) {
    const auto values = std::make_shared<std::vector<float>>(1, value);
    const auto told = std::make_shared<std::promise<float>>();
    to.add(*values, values, [values, told](const givers&) { told->set_value(values->front()); });
    return told->get_future();
  }

  played_world world{3};
  std::vector<std::unique_ptr<mpi_network>> nets = networks_of(world, 3);
  std::vector<std::jthread> ends;
};

TEST_F(MpiNetworkSums, AddUpOverTheThreadsOfTheirNetworks) {
  const auto first = nets[1]->join_sums(1), second = nets[2]->join_sums(1);
  for (int round = 0; round < 20; ++round) {
    auto one = give(*first, 1), two = give(*second, static_cast<float>(round));
    EXPECT_EQ(one.get(), 1 + static_cast<float>(round));
    EXPECT_EQ(two.get(), 1 + static_cast<float>(round));
  }
}

TEST_F(MpiNetworkSums, LetARankEndWhileAnotherStillGives) {
  auto first = nets[1]->join_sums(1);
  const auto second = nets[2]->join_sums(1);
  first.reset();
  end(1); // it passes until the other has left, too
  end(0);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(give(*second, 5).get(), 5);
  EXPECT_LE(world.coming_to_end(), 1); // rank 0, which has no sums
}

TEST_F(MpiNetworkSums, RefuseRankZeroASecondTimeAndOtherSizes) {
  EXPECT_THROW(nets[0]->join_sums(1), std::invalid_argument);
  const auto first = nets[1]->join_sums(2), second = nets[2]->join_sums(2);
  EXPECT_THROW(nets[1]->join_sums(2), std::invalid_argument);
  std::vector<float> three(3);
  EXPECT_THROW(first->add(three, {}, [](const givers&) {}), std::invalid_argument);
  std::vector<float> two(2);
  EXPECT_THROW(first->add(two, {}, {}), std::invalid_argument);
}

TEST_F(MpiNetworkSums, TellNothingOnceMpiHasFailed) {
  const auto first = nets[1]->join_sums(1);
  world.fail();
  const auto values = std::make_shared<std::vector<float>>(1);
  first->add(*values, values, [](const givers&) { FAIL(); });
}

} // namespace
} // namespace mailgrad::net
