#include <mailgrad/net/tls/tls_pipe.hpp>

#include <mailgrad/net/tls/key_folder.hpp>
#include <mailgrad/tests/net/tcp/plain_listener.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <random>
#include <span>

namespace mailgrad::net {
namespace {

using namespace ::testing;

bytes bytes_of_numbers(std::initializer_list<int> numbers) {
  bytes all;
  for (const int n : numbers) all.push_back(static_cast<std::byte>(n));
  return all;
}

iovec part_of(byte_view data) { return {const_cast<std::byte*>(data.data()), data.size()}; }

/// Both ends of a pipe over two sockets of this process.
struct TlsPipe : Test {
  TlsPipe() {
    folder.make();
    keys = tls_keys::of_token(folder.token());
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) throw std::runtime_error("no sockets");
  }
  ~TlsPipe() override { end(); }
  void end() {
    client.reset();
    server.reset();
    for (const int s : sockets) close(s);
  }
  void greet() {
    client.emplace(sockets[0], keys, tls_pipe::side::client);
    server.emplace(sockets[1], keys, tls_pipe::side::server);
    greet(*client, *server);
  }
  static moved read(tls_pipe& from, std::span<std::byte> to) {
    const iovec part = part_of(to);
    return from.read({&part, 1});
  }
  static moved write(tls_pipe& to, byte_view data) {
    const iovec part = part_of(data);
    return to.write({&part, 1});
  }
  static void greet(tls_pipe& one, tls_pipe& other) {
    std::byte place{};
    for (int round = 0; round < 3; ++round)
      for (tls_pipe* p : {&one, &other}) {
        p->write({});
        ASSERT_EQ(read(*p, {&place, 1}).what, moved::outcome::later);
      }
  }

  scratch_folder files;
  key_folder folder{files.path() / "keys"};
  std::shared_ptr<const tls_keys> keys;
  int sockets[2] = {-1, -1};
  std::optional<tls_pipe> client, server;
};

TEST_F(TlsPipe, CarriesBytesInAnyCutsUnderManyKeys) {
  client.emplace(sockets[0], keys, tls_pipe::side::client, 100'000);
  server.emplace(sockets[1], keys, tls_pipe::side::server);
  EXPECT_EQ(write(*client, as_bytes("x")).what, moved::outcome::not_yet);
  greet(*client, *server);
  std::mt19937_64 random(1);
  bytes sent(3 << 20), came(sent.size());
  for (std::byte& b : sent) b = static_cast<std::byte>(random());
  for (std::size_t out = 0, in = 0; in < sent.size();) {
    std::array<iovec, 5> parts;
    std::size_t end = out;
    for (iovec& part : parts) {
      const std::size_t size =
          std::min<std::size_t>(random() % 3 == 0 ? random() % 100 : random() % 60'000, sent.size() - end);
      part = part_of(byte_view{sent}.subspan(end, size));
      end += size;
    }
    if (const moved m = client->write(parts); m.what == moved::outcome::some) out += m.count;
    while (in < sent.size()) {
      const moved m =
          read(*server,
               std::span{came}.subspan(in, std::min<std::size_t>(1 + random() % 50'000, came.size() - in)));
      if (m.what == moved::outcome::later) break;
      ASSERT_EQ(m.what, moved::outcome::some) << m.words;
      in += m.count;
    }
  }
  EXPECT_TRUE(sent == came);
  EXPECT_FALSE(client->holds_output());
  EXPECT_FALSE(server->call_for_input());
}

/// Whoever sits between both can do that without a key. What came before is valid; what comes then ends this
/// connection, and neither reading nor writing throws.
TEST_F(TlsPipe, EndsByARecordThatIsNoneBehindValidData) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    end();
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    greet();
    ASSERT_EQ(write(*client, as_bytes("valid")).what, moved::outcome::some);
    bytes behind = bytes_of_numbers({0x15, 3, 3, 0, 2, 2, 40});
    for (std::size_t n = 0; round > 0 && n < 3; ++n)
      behind[random() % behind.size()] = static_cast<std::byte>(random());
    behind.resize(random() % 3 == 0 ? 300 : behind.size(), std::byte{7});
    ASSERT_EQ(::send(sockets[0], behind.data(), behind.size(), MSG_NOSIGNAL), std::ssize(behind));
    bytes place(100);
    const moved first = read(*server, place);
    ASSERT_EQ(first.what, moved::outcome::some);
    EXPECT_EQ(as_text(byte_view{place}.first(first.count)), "valid");
    const moved then = read(*server, place);
    EXPECT_NE(then.what, moved::outcome::some) << "of nobody who has a key";
    const moved answer = write(*server, as_bytes("an answer"));
    if (then.what == moved::outcome::failed) {
      EXPECT_EQ(answer.what, moved::outcome::failed);
    }
  }
}

/// OpenSSL would make room for what a peer says that it sends.
TEST_F(TlsPipe, MakesNoRoomForALongGreeting) {
  server.emplace(sockets[1], keys, tls_pipe::side::server);
  bytes place(100);
  for (const std::byte b : bytes_of_numbers({22, 3, 1, 0, 38, 1, 1, 0xff, 0xb8})) {
    const moved before = read(*server, place);
    ASSERT_EQ(before.what, moved::outcome::later) << before.words;
    ASSERT_EQ(::send(sockets[0], &b, 1, MSG_NOSIGNAL), 1);
  }
  const moved last = read(*server, place);
  EXPECT_EQ(last.what, moved::outcome::ended);
  EXPECT_EQ(last.words, "Message too long");
}

TEST(ClearRecords, KnowLongMessagesWhereverTheyBegin) {
  const auto number = [](std::size_t n, int shift) { return static_cast<int>(n >> shift & 0xff); };
  const auto record = [&](int kind, const bytes& body) {
    bytes r = bytes_of_numbers({kind, 3, 3, number(body.size(), 8), number(body.size(), 0)});
    r.insert(r.end(), body.begin(), body.end());
    return r;
  };
  const auto message = [&](std::size_t says, std::size_t has) {
    bytes m = bytes_of_numbers({1, number(says, 16), number(says, 8), number(says, 0)});
    m.resize(4 + has, std::byte{0xff});
    return m;
  };
  const bytes first = record(22, message(300, 300)), cipher = record(20, {std::byte{1}});
  for (const std::size_t length : {most_greeting_message, most_greeting_message + 1})
    for (const bytes& last : {record(22, message(length, 0)), record(23, message(length, 0))})
      for (std::size_t cut = 1; cut < 8; ++cut) {
        clear_records records;
        bytes all = first;
        for (const bytes& part : {cipher, last}) all.insert(all.end(), part.begin(), part.end());
        bool fits = true;
        for (byte_view left = all; !left.empty() && fits; left = left.subspan(std::min(cut, left.size())))
          fits = records.follow(left.first(std::min(cut, left.size())));
        EXPECT_EQ(fits, length == most_greeting_message || last[0] == std::byte{23});
      }
}

/// Many connections of one server, whose peers take nothing for a while.
TEST_F(TlsPipe, HoldsLittleForManyPeersThatTakeNothing) {
  constexpr std::size_t count = 3 * spare_buffers::most_lent;
  const auto spare = std::make_shared<tls_buffers>();
  std::vector<std::array<int, 2>> pairs(count);
  std::vector<std::unique_ptr<tls_pipe>> clients, servers;
  for (auto& pair : pairs) {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    clients.push_back(std::make_unique<tls_pipe>(pair[0], keys, tls_pipe::side::client));
    servers.push_back(
        std::make_unique<tls_pipe>(pair[1], keys, tls_pipe::side::server, std::uint64_t{1} << 30, spare));
    greet(*clients.back(), *servers.back());
  }
  EXPECT_EQ(spare->out.lent(), 0U) << "nobody has anything to say";
  const bytes sent(2 << 20, std::byte{7});
  std::vector<std::size_t> taken(count), came(count);
  std::size_t gathered = 0;
  for (std::size_t i = 0; i < count; ++i) {
    while (taken[i] < sent.size()) {
      const moved m = write(*servers[i], byte_view{sent}.subspan(taken[i]));
      if (m.what != moved::outcome::some) break;
      taken[i] += m.count;
    }
    ASSERT_LT(taken[i], sent.size()) << "the socket took all";
    gathered += servers[i]->gathered();
  }
  EXPECT_EQ(spare->out.lent(), spare_buffers::most_lent);
  EXPECT_LE(gathered, (spare_buffers::most_lent * 288 + count * 17) << 10);
  bytes place(1 << 20);
  for (std::size_t i = 0; i < count; ++i)
    while (came[i] < sent.size()) {
      const moved in = read(*clients[i], place);
      if (in.what == moved::outcome::some) came[i] += in.count;
      const moved out = write(*servers[i], byte_view{sent}.subspan(taken[i]));
      if (out.what == moved::outcome::some) taken[i] += out.count;
      ASSERT_TRUE(std::ranges::all_of(std::span(place).first(in.count),
                                      [](std::byte b) { return b == std::byte{7}; }));
    }
  EXPECT_EQ(spare->out.lent(), 0U);
  clients.clear();
  servers.clear();
  for (const auto& pair : pairs)
    for (const int s : pair) close(s);
}

TEST_F(TlsPipe, GivesItsBufferBackWhenItEndsBeforeItsPeerHasTakenAll) {
  const auto spare = std::make_shared<tls_buffers>();
  client.emplace(sockets[0], keys, tls_pipe::side::client);
  server.emplace(sockets[1], keys, tls_pipe::side::server, std::uint64_t{1} << 30, spare);
  greet(*client, *server);
  const bytes much(8 << 20);
  while (write(*server, much).what == moved::outcome::some) {
  }
  EXPECT_EQ(spare->out.lent(), 1U);
  server.reset();
  EXPECT_EQ(spare->out.lent(), 0U);
}

TEST_F(TlsPipe, KnowsWhatItHoldsBack) {
  greet();
  write(*client, as_bytes("two"));
  std::byte first{};
  EXPECT_EQ(read(*server, {&first, 1}).count, 1U);
  EXPECT_TRUE(server->call_for_input());
}

/// Only the socket tells when the rest is there, and who asked all the time would take a processor.
TEST_F(TlsPipe, CallsForNothingWhileARecordIsHalfThere) {
  greet();
  write(*client, as_bytes("word"));
  std::array<std::byte, 100> record, place;
  const ssize_t size = recv(sockets[1], record.data(), record.size(), 0);
  ASSERT_GT(size, 10);
  ASSERT_EQ(send(sockets[0], record.data(), 10, 0), 10);
  EXPECT_EQ(read(*server, place).what, moved::outcome::later);
  EXPECT_FALSE(server->call_for_input());
  ASSERT_EQ(send(sockets[0], record.data() + 10, static_cast<std::size_t>(size - 10), 0), size - 10);
  EXPECT_EQ(read(*server, place).count, 4U);
}

TEST_F(TlsPipe, SaysThatTheSocketTakesNoMore) {
  greet();
  const bytes much(1 << 20);
  moved m = write(*client, much);
  for (int i = 0; i < 100 && m.what == moved::outcome::some; ++i) m = write(*client, much);
  EXPECT_EQ(m.what, moved::outcome::later);
  EXPECT_TRUE(client->holds_output());
}

TEST_F(TlsPipe, TakesNoByteThatWasChanged) {
  greet();
  write(*client, as_bytes("pay 10"));
  std::array<char, 100> record;
  const ssize_t size = recv(sockets[1], record.data(), record.size(), 0);
  ASSERT_GT(size, 0);
  record[8] = static_cast<char>(record[8] ^ 1);
  ASSERT_EQ(send(sockets[0], record.data(), static_cast<std::size_t>(size), 0), size);
  std::array<std::byte, 10> place;
  const moved m = read(*server, place);
  EXPECT_EQ(m.what, moved::outcome::failed);
  EXPECT_THAT(m.words, HasSubstr("bad record mac"));
}

/// The system says it once, to whoever reads or writes first.
TEST_F(TlsPipe, TellsWhyTheSocketHasFailedAlsoIfItWasWritingThen) {
  const plain_listener listener;
  end();
  sockets[0] = connected_to_port(listener.port());
  sockets[1] = listener.accepted();
  greet();
  const linger at_once{1, 0};
  setsockopt(sockets[0], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(std::exchange(sockets[0], -1)); // which resets it
  write(*server, as_bytes("x"));
  std::byte place{};
  const moved m = read(*server, {&place, 1});
  EXPECT_EQ(m.what, moved::outcome::ended);
  EXPECT_EQ(m.words, "Connection reset by peer");
}

/// A client of OpenSSL's own, which proves nothing of itself and accepts whatever a server shows.
moved answer_to_nobody(const int (&sockets)[2], std::shared_ptr<const tls_keys> keys) {
  tls_pipe server(sockets[1], std::move(keys), tls_pipe::side::server);
  const openssl::context options(SSL_CTX_new(TLS_client_method()));
  const openssl::connection nobody(SSL_new(options.get()));
  SSL_set_fd(nobody.get(), sockets[0]);
  fcntl(sockets[0], F_SETFL, O_NONBLOCK);
  std::byte place{};
  const iovec part{&place, 1};
  moved m;
  for (int round = 0; round < 4 && m.what == moved::outcome::later; ++round) {
    if (SSL_connect(nobody.get()) == 1) SSL_write(nobody.get(), "x", 1);
    ERR_clear_error();
    m = server.read({&part, 1});
  }
  return m;
}

TEST_F(TlsPipe, RefusesAClientThatShowsNoCertificate) {
  const moved m = answer_to_nobody(sockets, tls_keys::of_certificates(folder.of_server()));
  EXPECT_EQ(m.what, moved::outcome::failed);
  ASSERT_TRUE(m.refused);
  EXPECT_EQ(m.refused->code, refusal_code::keys);
  EXPECT_EQ(m.refused->found, "none (peer did not return a certificate)");
}

TEST_F(TlsPipe, RefusesAClientThatOffersNoToken) {
  const moved m = answer_to_nobody(sockets, keys);
  EXPECT_EQ(m.what, moved::outcome::failed);
  ASSERT_TRUE(m.refused);
  EXPECT_THAT(m.refused->found, HasSubstr("none ("));
}

TEST_F(TlsPipe, EndsWithItsPeer) {
  greet();
  shutdown(sockets[0], SHUT_WR);
  std::byte place{};
  const moved m = read(*server, {&place, 1});
  EXPECT_EQ(m.what, moved::outcome::ended);
  EXPECT_EQ(m.words, "closed by the peer");
}

} // namespace
} // namespace mailgrad::net
