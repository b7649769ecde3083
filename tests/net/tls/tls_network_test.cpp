#include <mailgrad/net/tcp/tcp_network.hpp>
#include <mailgrad/net/tls/key_folder.hpp>

#include <mailgrad/tests/net/awaited_layers.hpp>
#include <mailgrad/tests/net/tcp/plain_listener.hpp>
#include <mailgrad/tests/support/http_client.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <gmock/gmock.h>

#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <deque>
#include <optional>
#include <stdexcept>
#include <tuple>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using namespace ::testing;
using mailgrad::testing::http_client;
using keys_ptr = std::shared_ptr<const tls_keys>;

struct made_folder {
  made_folder() { keys.make(); }

  scratch_folder files;
  key_folder keys{files.path() / "keys"};
};
const key_folder& ours() {
  static const made_folder folder;
  return folder.keys;
}
const key_folder& others() {
  static const made_folder folder;
  return folder.keys;
}

keys_ptr by_token(const key_folder& f) { return tls_keys::of_token(f.token()); }
keys_ptr of_server(const key_folder& f) { return tls_keys::of_certificates(f.of_server()); }
keys_ptr of_worker(const key_folder& f) { return tls_keys::of_certificates(f.of_worker()); }
keys_ptr of_shard(const key_folder& f) { return tls_keys::of_certificates(f.of_shard()); }

/// A server with keys, and a client with others or the same.
struct TlsNetwork : Test {
  void serve(keys_ptr keys) {
    server_net.emplace(tcp_options{.keys = std::move(keys)});
    address = server.listen(*server_net, "127.0.0.1:0");
  }
  /// The client tries once, or for so long.
  void connect(keys_ptr keys, hello says = {}, std::chrono::milliseconds patience = 0ms) {
    client.reset();
    client_net.emplace(tcp_options{.patience = patience, .keys = std::move(keys)});
    client.emplace(*client_net, address, std::move(says));
  }
  /// Both sides are told why a client with these keys does not join a server with those.
  void refuse(keys_ptr of_client, keys_ptr of_server) {
    serve(std::move(of_server));
    connect(std::move(of_client));
    told = client->layers.wait_ended();
    refused = server.refused(0);
  }
  void expect_talk() {
    ASSERT_TRUE(client->layers.wait_joined());
    awaited_layers* guest = server.guest(0);
    ASSERT_TRUE(guest);
    guest->echoes = true;
    const auto body = std::make_shared<const bytes>(bytes((3 << 20) + 5, std::byte{7}));
    client->send("a secret");
    client->send_body("tag", body);
    server.post([&](instant) { guest->own->send_body(bytes_of("back"), *body, body); });
    for (awaited_layers* side : {&client->layers, guest}) {
      EXPECT_TRUE(side->wait_messages(1) && side->wait_bodies(1));
      EXPECT_TRUE(side->kept().bodies.at(0).second == as_text(*body));
    }
  }

  std::optional<tcp_network> server_net, client_net;
  awaited_server server{{.times = timing{250ms}}};
  std::optional<awaited_client> client;
  std::string address, told, refused;
};

TEST_F(TlsNetwork, TalksByCertificates) {
  serve(of_server(ours()));
  connect(of_worker(ours()));
  expect_talk();
}

TEST_F(TlsNetwork, LetsAParameterHostJoinAndBeJoined) {
  serve(of_shard(ours()));
  connect(of_shard(ours()));
  expect_talk();
}

TEST_F(TlsNetwork, ShowsNothingOfWhatIsSaid) {
  plain_listener tap;
  address = tap.address();
  connect(by_token(ours()), {.says = {{"model", "very-secret"}}}, 10s);
  const std::string heard = tap.hear(64);
  EXPECT_EQ(heard[0], '\x16');
  EXPECT_EQ(heard.find("very-secret"), std::string::npos);
}

TEST_F(TlsNetwork, WaitsBehindATunnelForItsServer) {
  std::optional<plain_listener> tunnel(std::in_place);
  address = tunnel->address();
  connect(by_token(ours()), {}, 10s);
  tunnel->turn_away();
  tunnel.reset();
  server_net.emplace(tcp_options{.keys = by_token(ours())});
  server.listen(*server_net, address);
  expect_talk();
}

TEST_F(TlsNetwork, TellsBothSidesOfAnotherAuthority) {
  const std::string expected = of_server(ours())->words(), found = of_server(others())->words();
  refuse(of_worker(others()), of_server(ours()));
  EXPECT_THAT(told, AllOf(StartsWith("server: " + address), HasSubstr(expected), HasSubstr(found)));
  EXPECT_THAT(refused, AllOf(StartsWith("keys: expected TLS 1.3 with " + expected), HasSubstr(found)));
}

TEST_F(TlsNetwork, TellsBothSidesOfAnotherToken) {
  refuse(by_token(others()), by_token(ours()));
  const std::string words =
      "keys: expected TLS 1.3 with " + by_token(ours())->words() + ", found " + by_token(others())->words();
  EXPECT_EQ(told, "server: " + address + ": refuses: " + words +
                      ": give both sides keys of one `mailgrad keys new`, or none on one machine");
  EXPECT_EQ(refused, words);
}

TEST_F(TlsNetwork, TellsBothSidesOfATokenWhereACertificateIsExpected) {
  refuse(by_token(ours()), of_server(ours()));
  EXPECT_THAT(told, AllOf(HasSubstr(by_token(ours())->words()), HasSubstr("'Mailgrad CA ")));
  EXPECT_THAT(refused, AllOf(HasSubstr(of_server(ours())->words()), HasSubstr("found token ")));
}

TEST_F(TlsNetwork, TellsBothSidesOfACertificateWhereATokenIsExpected) {
  refuse(of_worker(ours()), by_token(ours()));
  const auto both = AllOf(HasSubstr(by_token(ours())->words()), HasSubstr(of_server(ours())->words()));
  EXPECT_THAT(
      told,
      AllOf(both, HasSubstr(": one side has a token and the other certificates: give both sides the ")));
  EXPECT_THAT(refused, both);
}

TEST_F(TlsNetwork, TellsBothSidesOfAPeerWithoutKeys) {
  refuse(nullptr, by_token(ours()));
  const std::string words =
      "keys: expected TLS 1.3 with " + by_token(ours())->words() + ", found a peer without keys";
  EXPECT_EQ(told, "server refuses: " + words + ": give --keys with the keys of the server");
  EXPECT_EQ(refused, words);
}

TEST_F(TlsNetwork, TellsBothSidesOfAServerWithoutKeys) {
  refuse(by_token(ours()), nullptr);
  EXPECT_THAT(told, AllOf(HasSubstr("expected TLS 1.3 with " + by_token(ours())->words()),
                          HasSubstr("found a server without keys")));
  EXPECT_THAT(refused, HasSubstr("found TLS: the peer has keys and this side has none"));
}

TEST_F(TlsNetwork, TakesNoServersCertificateFromAWorker) {
  serve(of_worker(ours()));
  connect(of_worker(ours()));
  EXPECT_THAT(client->layers.wait_ended(), HasSubstr("unsuitable certificate purpose"));
}

/// A role is a matter of keys, and not of the names of files.
TEST_F(TlsNetwork, TakesNoParameterHostWithTheCertificateOfAWorker) {
  serve(of_server(ours()));
  connect(of_worker(ours()), {.part = role::shard});
  EXPECT_THAT(
      client->layers.wait_ended(),
      HasSubstr("keys: expected a certificate of a parameter host, found one that lets nobody serve"));
  connect(of_shard(ours()), {.part = role::shard});
  EXPECT_TRUE(client->layers.wait_joined()) << client->layers.wait_ended();
}

TEST_F(TlsNetwork, TurnsAwayStrangersAndGoesOnWithTheOthers) {
  serve(by_token(ours()));
  std::deque<http_client> strangers;
  for (const std::string text :
       {"", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01", "\x16\x03\x01\x02\x05 no hello of TLS"})
    strangers.emplace_back(port_of(address)).say(text);
  connect(by_token(ours()));
  expect_talk();
  for (http_client& stranger : strangers) stranger.hear_out(); // until the server has closed
  EXPECT_TRUE(client->layers.kept().ends.empty());
}

TEST_F(TlsNetwork, ListensWithKeysAloneWhereOthersCanConnect) {
  server_net.emplace();
  EXPECT_THAT(
      [&] { server.listen(*server_net, "0.0.0.0:0"); },
      ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("without keys"), HasSubstr("--keys DIR"))));
  server_net.emplace(tcp_options{.keys = by_token(ours())});
  EXPECT_THAT(server.listen(*server_net, "0.0.0.0:0"), StartsWith("0.0.0.0:"));
}

TEST_F(TlsNetwork, ConnectsWithKeysAloneToOtherMachines) {
  address = "192.0.2.1:7000"; // of no machine, RFC 5737
  connect(nullptr);
  EXPECT_THAT(client->layers.wait_ended(), AllOf(HasSubstr("cannot connect to 192.0.2.1:7000 without keys"),
                                                 HasSubstr("give --keys with the server's keys")));
}

/// Passes on what two processes of this machine say, and does harm to it once when asked.
///
/// Threads any.
class man_in_the_middle {
public:
  /// What is done to the next bytes that come.
  struct harm {
    bytes behind{};                         ///< what is sent behind them
    std::optional<std::uint64_t> changes{}; ///< which of them is changed
    bool cuts = false;                      ///< half of them are sent, and the connection closes
  };

  explicit man_in_the_middle(const std::string& to) : to_(port_of(to)) {}
  ~man_in_the_middle() {
    eventfd_write(over_, 1);
    thread_.join();
    for (const pair& p : pairs_)
      for (const int s : p) close(s);
    close(over_);
  }
  man_in_the_middle(const man_in_the_middle&) = delete;
  man_in_the_middle& operator=(const man_in_the_middle&) = delete;

  std::string address() const { return listens_.address(); }
  void do_harm(bool up, harm h) {
    const std::lock_guard lock(mutex_);
    (up ? up_ : down_) = std::move(h);
  }

private:
  using pair = std::array<int, 2>; ///< who has connected, and the server

  static void say(int to, byte_view all) {
    while (!all.empty()) {
      const ssize_t n = send(to, all.data(), all.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      all = all.subspan(static_cast<std::size_t>(n));
    }
  }

  void pass_on() {
    for (;;) {
      std::vector<pollfd> all{{over_, POLLIN, 0}, {listens_.descriptor(), POLLIN, 0}};
      for (const pair& p : pairs_)
        for (const int s : p) all.push_back({s, POLLIN, 0});
      poll(all.data(), all.size(), -1);
      if (all[0].revents != 0) return;
      std::vector<pair> still;
      for (std::size_t i = 0; i < pairs_.size(); ++i) {
        bool goes_on = true;
        for (const bool up : {true, false})
          if (goes_on && all[2 + 2 * i + (up ? 0 : 1)].revents != 0) goes_on = pass(pairs_[i], up);
        if (goes_on) still.push_back(pairs_[i]);
        for (const int s : pairs_[i])
          if (!goes_on) close(s);
      }
      pairs_ = std::move(still);
      if (all[1].revents != 0) pairs_.push_back({listens_.accepted(), connected_to_port(to_)});
    }
  }
  /// False: both connections are to be closed.
  bool pass(const pair& p, bool up) {
    bytes data(1 << 16);
    const ssize_t n = recv(p[up ? 0 : 1], data.data(), data.size(), 0);
    if (n <= 0) return false;
    data.resize(static_cast<std::size_t>(n));
    std::optional<harm> h;
    {
      const std::lock_guard lock(mutex_);
      h = std::exchange(up ? up_ : down_, std::nullopt);
    }
    if (h && h->changes) data[*h->changes % data.size()] ^= std::byte{1};
    if (h && h->cuts) data.resize(data.size() / 2);
    if (h) data.insert(data.end(), h->behind.begin(), h->behind.end());
    say(p[up ? 1 : 0], data);
    return !h || !h->cuts;
  }

  std::uint16_t to_;
  plain_listener listens_;
  int over_ = eventfd(0, EFD_CLOEXEC);
  std::vector<pair> pairs_; ///< of the thread
  std::mutex mutex_;        ///< guards the two members below
  std::optional<harm> up_, down_;
  std::thread thread_{[this] { pass_on(); }};
};

/// Of these `length` bytes behind its head, `there` are there.
bytes record(std::uint8_t type, std::size_t length, std::size_t there, std::mt19937_64& random) {
  bytes made{std::byte{type}, std::byte{3}, std::byte{3}, static_cast<std::byte>(length >> 8),
             static_cast<std::byte>(length & 0xff)};
  while (made.size() < 5 + there) made.push_back(static_cast<std::byte>(random()));
  return made;
}

man_in_the_middle::harm drawn_harm(std::mt19937_64& random) {
  man_in_the_middle::harm h;
  const auto type = static_cast<std::uint8_t>(20 + random() % 5);
  switch (random() % 8) {
  case 0: // an alert in the clear
    h.behind = {std::byte{0x15}, std::byte{3}, std::byte{3}, std::byte{0},
                std::byte{2},    std::byte{2}, std::byte{40}};
    break;
  case 1:
    h.behind = record(type, random() % 16'641, random() % 40, random); // the rest never comes
    break;
  case 2:
    h.behind = record(type, 0xffff, 300, random);
    break;
  case 3:
    h.behind = record(23, 64, 64, random);
    break;
  case 4:
    h.behind = record(type, 0, 0, random);
    break;
  case 5: // no record at all
    h.behind.resize(1 + random() % 400);
    for (std::byte& b : h.behind) b = static_cast<std::byte>(random());
    break;
  case 6:
    h.changes = random();
    break;
  default:
    h.cuts = true; // in the middle of a record
  }
  return h;
}

enum class key_kind : std::uint8_t { none, token, certificates };
enum class way : std::uint8_t { worker_to_server, worker_to_host, host_to_server };

/// Somebody sits between two processes of a run, has no key, and sends what he likes behind valid data.
struct TlsFaults : TestWithParam<std::tuple<key_kind, way, bool>> {
  static keys_ptr keys(bool listens) {
    const auto [kind, between, up] = GetParam();
    if (kind == key_kind::none) return nullptr;
    if (kind == key_kind::token) return by_token(ours());
    if (between == (listens ? way::worker_to_host : way::host_to_server)) return of_shard(ours());
    return listens ? of_server(ours()) : of_worker(ours());
  }
  static hello says() {
    return {.part = std::get<1>(GetParam()) == way::host_to_server ? role::shard : role::worker};
  }

  tcp_network server_net{tcp_options{.keys = keys(true)}}, client_net{tcp_options{.keys = keys(false)}};
  awaited_server server{{.times = timing{50ms}}};
  std::string address = server.listen(server_net, "127.0.0.1:0");
};

TEST_P(TlsFaults, EndOneConnectionInWords) {
  awaited_client undisturbed(client_net, address, says());
  ASSERT_TRUE(undisturbed.layers.wait_joined()) << undisturbed.layers.wait_ended();
  server.guest(0)->echoes = true;
  std::size_t guests = 1;
  for (const std::uint64_t seed :
       mailgrad::testing::slice_or("MAILGRAD_TLS_FAULTS", "MAILGRAD_FIRST_TLS_FAULT", 20, 4)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    man_in_the_middle between(address);
    awaited_client disturbed(client_net, between.address(), says());
    ASSERT_TRUE(disturbed.layers.wait_joined()) << disturbed.layers.wait_ended();
    awaited_layers* guest = server.guest(guests);
    ASSERT_TRUE(guest);
    between.do_harm(std::get<2>(GetParam()), drawn_harm(random));
    EXPECT_NE(disturbed.layers.wait_ended(), "");
    EXPECT_NE(guest->wait_ended(), "");
    disturbed.forget();
    undisturbed.send("still here");
    EXPECT_TRUE(undisturbed.layers.wait_messages(guests++));
  }
  EXPECT_TRUE(undisturbed.layers.kept().ends.empty());
}

/// Who suffers it, and from whose side: "ParameterHostOfAServerByToken".
std::string name_of_fault(const TestParamInfo<std::tuple<key_kind, way, bool>>& of) {
  static const char* const kinds[] = {"WithoutKeys", "ByToken", "ByCertificates"};
  static const char* const sides[][2] = {{"WorkerOfAServer", "ServerOfAWorker"},
                                         {"WorkerOfAParameterHost", "ParameterHostOfAWorker"},
                                         {"ParameterHostOfAServer", "ServerOfAParameterHost"}};
  const auto [kind, between, up] = of.param;
  return std::string(sides[static_cast<int>(between)][up ? 1 : 0]) + kinds[static_cast<int>(kind)];
}

INSTANTIATE_TEST_SUITE_P(Roles, TlsFaults,
                         Combine(Values(key_kind::none, key_kind::token, key_kind::certificates),
                                 Values(way::worker_to_server, way::worker_to_host, way::host_to_server),
                                 Bool()),
                         name_of_fault);

} // namespace
} // namespace mailgrad::net
