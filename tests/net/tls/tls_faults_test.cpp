#include <mailgrad/net/tcp/tcp_network.hpp>
#include <mailgrad/net/tls/key_folder.hpp>

#include <mailgrad/tests/net/awaited_layers.hpp>
#include <mailgrad/tests/net/tls/man_in_the_middle.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <gmock/gmock.h>

#include <optional>
#include <random>
#include <string>
#include <tuple>

// Somebody sits between two processes of a run, has no key, and sends what he likes behind valid data.

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;

enum class key_kind : std::uint8_t { none, token, certificates };
enum class way : std::uint8_t { worker_to_server, worker_to_host, host_to_server };

/// The first bytes of a record are its type, version and length.
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

struct TlsFaults : ::testing::TestWithParam<std::tuple<key_kind, way, bool>> {
  struct made_folder {
    made_folder() { keys.make(); }

    scratch_folder files;
    key_folder keys{files.path() / "keys"};
  };
  static key_folder& folder() {
    static made_folder made;
    return made.keys;
  }
  /// Of the side that listens, or of the other.
  static std::shared_ptr<const tls_keys> keys(bool listens) {
    const auto [kind, between, up] = GetParam();
    if (kind == key_kind::none) return nullptr;
    if (kind == key_kind::token) return tls_keys::of_token(folder().token());
    if (between == (listens ? way::worker_to_host : way::host_to_server))
      return tls_keys::of_certificates(folder().of_shard());
    return tls_keys::of_certificates(listens ? folder().of_server() : folder().of_worker());
  }
  static hello says() {
    hello h;
    h.part = std::get<1>(GetParam()) == way::host_to_server ? role::shard : role::worker;
    return h;
  }
  void TearDown() override {
    client_net.forget(undisturbed.end);
    server_net.forget(server.end);
  }
  /// One whom nobody disturbs is heard.
  void expect_talk() {
    client_net.post(undisturbed.end, [this](instant) { undisturbed.end.own().send(bytes_of("still here")); });
    ++said;
    EXPECT_TRUE(undisturbed.layers.wait_for([this](auto& x) { return x.messages.size() == said; }));
  }

  tcp_network server_net{tcp_options{.keys = keys(true)}}, client_net{tcp_options{.keys = keys(false)}};
  awaited_server server{{.times = timing{50ms}}};
  awaited_client undisturbed{client_net, says()};
  std::size_t said = 0;
};

TEST_P(TlsFaults, EndOneConnectionInWords) {
  const std::string address = server_net.listen(server.end, "127.0.0.1:0");
  client_net.connect(undisturbed.end, address);
  ASSERT_TRUE(undisturbed.layers.wait_joined()) << undisturbed.layers.wait_ended();
  server.guest(0)->echoes = true;
  std::size_t guests = 1;
  for (const std::uint64_t seed :
       testing::slice_or("MAILGRAD_TLS_FAULTS", "MAILGRAD_FIRST_TLS_FAULT", 20, 4)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    man_in_the_middle between(address);
    awaited_client disturbed(client_net, says());
    client_net.connect(disturbed.end, between.address());
    ASSERT_TRUE(disturbed.layers.wait_joined()) << disturbed.layers.wait_ended();
    awaited_layers* guest = server.guest(guests++);
    ASSERT_TRUE(guest && guest->wait_joined());
    between.do_harm(std::get<2>(GetParam()), drawn_harm(random));
    EXPECT_NE(disturbed.layers.wait_ended(), "");
    EXPECT_NE(guest->wait_ended(), "");
    client_net.forget(disturbed.end);
    expect_talk();
  }
  EXPECT_TRUE(undisturbed.layers.kept().ends.empty());
}

/// Who suffers it, and from whose side: "ParameterHostOfAServerByToken".
std::string name_of_fault(const ::testing::TestParamInfo<std::tuple<key_kind, way, bool>>& of) {
  static const char* const kinds[] = {"WithoutKeys", "ByToken", "ByCertificates"};
  static const char* const sides[][2] = {{"WorkerOfAServer", "ServerOfAWorker"},
                                         {"WorkerOfAParameterHost", "ParameterHostOfAWorker"},
                                         {"ParameterHostOfAServer", "ServerOfAParameterHost"}};
  const auto [kind, between, up] = of.param;
  return std::string(sides[static_cast<int>(between)][up ? 1 : 0]) + kinds[static_cast<int>(kind)];
}

INSTANTIATE_TEST_SUITE_P(
    Roles, TlsFaults,
    ::testing::Combine(::testing::Values(key_kind::none, key_kind::token, key_kind::certificates),
                       ::testing::Values(way::worker_to_server, way::worker_to_host, way::host_to_server),
                       ::testing::Bool()),
    name_of_fault);

} // namespace
} // namespace mailgrad::net
