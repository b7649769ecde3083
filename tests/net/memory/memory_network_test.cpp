#include <mailgrad/net/memory/memory_network.hpp>

#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/memory/peer_memory.hpp>
#include <mailgrad/net/memory/shared_heap.hpp>
#include <mailgrad/net/memory/shared_region.hpp>
#include <mailgrad/tests/net/awaited_layers.hpp>

#include <gmock/gmock.h>

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <optional>
#include <stdexcept>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;

/// A peer that speaks by hand: it has the memory, and may write into it whatever it likes.
class rude_peer {
public:
  explicit rude_peer(const std::string& address)
      : socket_(connected_to(parse_memory_server_address(address)).socket) {
    wait();
    auto offer = take_offer(socket_.number());
    if (!offer) throw std::runtime_error("no offer came");
    memory = std::move(offer->region);
  }

  void call() const { send(socket_.number(), "!", 1, MSG_NOSIGNAL); }
  /// Until the server has closed.
  void hear_out() const {
    for (char c = 0;;) {
      wait();
      if (recv(socket_.number(), &c, 1, 0) <= 0) return;
    }
  }

  shared_region memory;

private:
  void wait() const {
    pollfd ready{socket_.number(), POLLIN, 0};
    poll(&ready, 1, 60'000);
  }

  descriptor socket_;
};

descriptor next_at(const descriptor& listener) {
  for (;;) {
    if (descriptor peer = accepted_at(listener.number())) return peer;
    std::this_thread::yield();
  }
}

struct MemoryNetwork : Test {
  void join() {
    client.connect(address);
    ASSERT_TRUE(client.layers.wait_joined());
    guest = server.guest(0);
    ASSERT_TRUE(guest);
    guest->echoes = true;
  }
  void expect_answers(std::size_t count) {
    const std::size_t before = client.layers.kept().messages.size();
    for (std::size_t i = 1; i <= count; ++i) {
      client.send("still here");
      ASSERT_TRUE(client.layers.wait_messages(before + i));
    }
  }
  /// A name that no other process listens under.
  static std::string own_name(const std::string& of) { return std::to_string(getpid()) + "-" + of; }
  static void send_block(session& s, const std::string& tag, const std::shared_ptr<block>& body) {
    s.send_body(bytes_of(tag), {body->data(), body->bytes()}, body);
  }

  memory_network server_net, client_net;
  awaited_server server{{.times = timing{50ms}}};
  awaited_client client{client_net};
  awaited_layers* guest = nullptr;
  std::string address = server.listen(server_net, "memory:");
};

TEST_F(MemoryNetwork, ListensUnderTheNameThatItIsGiven) {
  const std::string name = memory_address(own_name("of-a-test"));
  EXPECT_EQ(server.listen(server_net, name), name);
  EXPECT_NE(address, name);
  client.connect(name);
  EXPECT_TRUE(client.layers.wait_joined());
}

/// Both sides lend, and what lies elsewhere is moved.
TEST_F(MemoryNetwork, LendsBodiesThatLieInTheHeapOfAnEnd) {
  const auto of_client = std::make_shared<shared_heap>(), of_server = std::make_shared<shared_heap>();
  client.end.lend_from(of_client);
  server.end.lend_from(of_server);
  join();
  for (std::size_t i = 1; i <= 6; ++i) {
    const std::string tag = "body " + std::to_string(i);
    const bool lies_elsewhere = i == 3;
    const auto give = [&](shared_heap& heap, session& s) {
      const auto body = std::make_shared<block>(lies_elsewhere ? block(i << 18) : heap.allocate(i << 18));
      body->as<char>()[i] = static_cast<char>('a' + i);
      send_block(s, tag, body);
    };
    client.post([&](instant) { give(*of_client, client.end.own()); });
    server.post([&](instant) { give(*of_server, *guest->own); });
    for (awaited_layers* side : {&client.layers, guest}) {
      ASSERT_TRUE(side->wait_bodies(i));
      const auto [said, text] = side->kept().bodies.back();
      EXPECT_EQ(said, tag);
      EXPECT_EQ(text.size(), i << 18);
      EXPECT_EQ(text[i], static_cast<char>('a' + i));
    }
  }
  EXPECT_EQ(client.layers.loans, 5);
  EXPECT_EQ(guest->loans, 5);
}

TEST_F(MemoryNetwork, MovesBodiesIfOneSideAloneHasAHeap) {
  const auto of_client = std::make_shared<shared_heap>();
  client.end.lend_from(of_client);
  join();
  const auto body = std::make_shared<block>(of_client->allocate(100)), other = std::make_shared<block>(100);
  client.post([&](instant) { send_block(client.end.own(), "lent", body); });
  ASSERT_TRUE(guest->wait_bodies(1));
  EXPECT_EQ(guest->loans, 1);
  server.post([&](instant) { send_block(*guest->own, "moved", other); });
  ASSERT_TRUE(client.layers.wait_bodies(1));
  EXPECT_EQ(client.layers.loans, 0);
}

TEST_F(MemoryNetwork, SendsALyingPeerAwayAndGoesOnWithTheOthers) {
  join();
  const std::vector<std::function<void(const rude_peer&)>> lies{
      [](const rude_peer& p) { p.memory.of_client().counters->written = ~std::uint64_t{0}; },
      [](const rude_peer& p) {
        p.memory.of_client().counters->written = shared_region::usual_ring_bytes + 1;
      },
      [](const rude_peer& p) {
        std::ranges::fill(p.memory.of_client().data, std::byte{0xff});
        p.memory.of_client().counters->written = 1000; // no frame
      },
      [](const rude_peer& p) { // says hello to nobody, and has taken what was never written
        p.memory.of_server().counters->taken = 77;
        p.memory.of_client().counters->written = 43;
      },
      [](const rude_peer& p) { // every number at once
        for (ring_counters* const all : {p.memory.of_server().counters, p.memory.of_client().counters})
          std::ranges::fill(std::span(reinterpret_cast<std::byte*>(all), 4096), std::byte{0x5a});
      },
  };
  for (const auto& lie : lies) {
    const rude_peer peer(address);
    lie(peer);
    peer.call();
    expect_answers(5);
    peer.hear_out();
  }
  expect_answers(5);
  EXPECT_THAT(client.layers.kept().ends, IsEmpty());
}

TEST_F(MemoryNetwork, OutlivesAPeerThatCallsAndSaysNothing) {
  join();
  const rude_peer peer(address);
  for (int i = 0; i < 10'000; ++i) peer.call();
  expect_answers(20);
  peer.hear_out(); // no hello within its time
  EXPECT_THAT(client.layers.kept().ends, IsEmpty());
}

TEST_F(MemoryNetwork, HoldsUpNobodyForAPeerThatWritesOnAfterItsEnd) {
  join();
  const rude_peer peer(address);
  std::atomic<bool> over = false;
  std::jthread writer([&] { // no frame, again and again as much as the ring holds
    ring_counters& mine = *peer.memory.of_client().counters;
    while (!over) {
      std::atomic_ref(mine.written).store(std::atomic_ref(mine.taken).load() + peer.memory.ring_bytes());
      peer.call();
    }
  });
  expect_answers(200);
  peer.hear_out();
  over = true;
  expect_answers(5);
  EXPECT_THAT(client.layers.kept().ends, IsEmpty());
}

TEST_F(MemoryNetwork, EndsASessionWhoseServerLies) {
  const std::string name = own_name("rude");
  const descriptor rude = listening_at(name);
  for (const std::string lie : {"taken", "written"}) {
    awaited_client fooled(client_net, memory_address(name));
    const descriptor peer = next_at(rude);
    const shared_region memory = shared_region::make();
    if (lie == "taken")
      memory.of_client().counters->taken = 5;
    else
      memory.of_server().counters->written = ~std::uint64_t{0};
    ASSERT_TRUE(send_offer(peer.number(), memory));
    EXPECT_THAT(fooled.layers.wait_ended(), HasSubstr("shared memory: expected bytes " + lie));
  }
}

TEST_F(MemoryNetwork, SaysWhatWasOfferedInsteadOfMemory) {
  const std::string name = memory_address(own_name("plain"));
  const descriptor rude = listening_at(own_name("plain"));
  client.connect(name);
  const descriptor peer = next_at(rude);
  send(peer.number(), "HTTP/1.1 400 Bad", 16, 0);
  EXPECT_THAT(
      client.layers.wait_ended(),
      StartsWith("server: " + name + " did not take us in (shared memory: offset 1: expected an offer"));
}

TEST_F(MemoryNetwork, SaysThatNobodyAnswers) {
  const std::string name = memory_address(own_name("silent"));
  const descriptor silent = listening_at(own_name("silent"));
  client.connect(name);
  EXPECT_EQ(client.layers.wait_ended(),
            "server: no answer from " + name + " within 2 s: expected a server of Mailgrad there");
}

/// Connects as another user, in a process of its own. 0: the server has said words, and offered no memory.
int tried_as_another_user(const std::string& address) {
  const std::string name = parse_memory_server_address(address);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(2);
    const dialled there = connected_to(name);
    char words[512];
    pollfd ready{there.socket.number(), POLLIN, 0};
    poll(&ready, 1, 60'000);
    const ssize_t count = recv(there.socket.number(), words, sizeof words, 0);
    const bool is_refusal = count > 4 && std::string_view(words, 4) == "mgnf";
    _exit(is_refusal ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(MemoryNetwork, TakesInItsOwnUserAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  EXPECT_EQ(tried_as_another_user(address), 0);
  EXPECT_EQ(server.refused(0), "user: expected user 0, found user 65534");
  join();
}

TEST_F(MemoryNetwork, LosesNoCallOfThreadsThatSleepAtOnce) {
  for (const auto& [ours, theirs] : {std::pair{0us, 0us}, {0us, 20us}, {20us, 0us}}) {
    memory_network one({.spin = ours}), two({.spin = theirs});
    awaited_server sleepy;
    awaited_client caller(two, sleepy.listen(one, "memory:"));
    ASSERT_TRUE(caller.layers.wait_joined());
    awaited_layers* who = sleepy.guest(0);
    ASSERT_TRUE(who);
    who->echoes = true;
    std::mt19937_64 random(7);
    const auto large = std::make_shared<const bytes>(bytes((3 << 20) + 1, std::byte{3})); // waits for room
    for (std::size_t i = 1; i <= 1'500; ++i) {
      for (std::uint64_t n = random() % 8 == 0 ? random() % 20'000 : 0; n > 0; --n)
        std::atomic_signal_fence(std::memory_order_seq_cst);
      caller.send("x");
      if (i % 100 == 0) caller.send_body("y", large);
      ASSERT_TRUE(caller.layers.wait_messages(i));
    }
    EXPECT_TRUE(who->wait_bodies(15));
  }
}

TEST_F(MemoryNetwork, RefusesTimesThatAreNone) {
  EXPECT_THROW(memory_network({.spin = -1us}), std::invalid_argument);
  EXPECT_THROW(memory_network({.patience = -1ms}), std::invalid_argument);
}

} // namespace
} // namespace mailgrad::net
