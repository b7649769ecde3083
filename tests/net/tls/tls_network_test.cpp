#include <mailgrad/net/tcp/tcp_network.hpp>
#include <mailgrad/net/tls/key_folder.hpp>

#include <mailgrad/tests/net/awaited_layers.hpp>
#include <mailgrad/tests/net/tcp/plain_listener.hpp>
#include <mailgrad/tests/support/http_client.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <optional>
#include <stdexcept>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

using keys_ptr = std::shared_ptr<const tls_keys>;

/// A server with keys, and a client with others or the same. Two folders of keys are made once for all tests.
struct TlsNetwork : ::testing::Test {
  struct made_folder {
    made_folder() { keys.make(); }

    scratch_folder files;
    key_folder keys{files.path() / "keys"};
  };
  static key_folder& ours() {
    static made_folder folder;
    return folder.keys;
  }
  static key_folder& others() {
    static made_folder folder;
    return folder.keys;
  }
  static keys_ptr by_certificate(const key_folder& f, bool serves) {
    return tls_keys::of_certificates(serves ? f.of_server() : f.of_worker());
  }
  static keys_ptr by_token(const key_folder& f) { return tls_keys::of_token(f.token()); }

  void serve(keys_ptr keys) {
    server_net.emplace(tcp_options{.keys = std::move(keys)});
    address = server_net->listen(server.end, "127.0.0.1:0");
  }
  void connect(keys_ptr keys, hello says = {}) {
    client.reset();
    client_net.emplace(tcp_options{.patience = 0ms, .keys = std::move(keys)});
    client.emplace(*client_net, std::move(says));
    client_net->connect(client->end, address);
  }
  void expect_talk() {
    ASSERT_TRUE(client->layers.wait_joined());
    awaited_layers* guest = server.guest(0);
    ASSERT_TRUE(guest && guest->wait_joined());
    guest->echoes = true;
    const auto body = std::make_shared<const bytes>(bytes((3 << 20) + 5, std::byte{7}));
    client_net->post(client->end, [&](instant) {
      client->end.own().send(bytes_of("a secret"));
      client->end.own().send_body(bytes_of("tag"), *body, body);
    });
    server_net->post(server.end, [&](instant) { guest->own->send_body(bytes_of("back"), *body, body); });
    EXPECT_TRUE(
        client->layers.wait_for([](auto& x) { return x.messages.size() == 1 && x.bodies.size() == 1; }));
    EXPECT_TRUE(guest->wait_for([](auto& x) { return x.messages.size() == 1 && x.bodies.size() == 1; }));
    EXPECT_TRUE(guest->kept().bodies[0].second == as_text(*body));
    EXPECT_TRUE(client->layers.kept().bodies[0].second == as_text(*body));
  }
  void TearDown() override {
    if (client) client_net->forget(client->end);
    if (server_net) server_net->forget(server.end);
  }

  awaited_server server{{.times = timing{250ms}}};
  std::optional<tcp_network> server_net, client_net;
  std::optional<awaited_client> client;
  std::string address;
};

TEST_F(TlsNetwork, TalksByCertificates) {
  serve(by_certificate(ours(), true));
  connect(by_certificate(ours(), false));
  expect_talk();
}

TEST_F(TlsNetwork, LetsAParameterHostJoinAndBeJoined) {
  const keys_ptr both = tls_keys::of_certificates(ours().of_shard());
  serve(both);
  connect(both);
  expect_talk();
}

TEST_F(TlsNetwork, TalksByAToken) {
  serve(by_token(ours()));
  connect(by_token(ours()));
  expect_talk();
}

TEST_F(TlsNetwork, ShowsNothingOfWhatIsSaid) {
  plain_listener tap;
  client_net.emplace(tcp_options{.keys = by_token(ours())});
  client.emplace(*client_net, hello{.says = {{"model", "very-secret"}}});
  client_net->connect(client->end, tap.address());
  const std::string heard = tap.hear(64);
  EXPECT_EQ(heard[0], '\x16');
  EXPECT_EQ(heard.find("very-secret"), std::string::npos);
}

TEST_F(TlsNetwork, WaitsBehindATunnelForItsServer) {
  std::optional<plain_listener> tunnel(std::in_place);
  address = tunnel->address();
  client_net.emplace(tcp_options{.keys = by_token(ours())});
  client.emplace(*client_net, hello{});
  client_net->connect(client->end, address);
  tunnel->turn_away();
  tunnel.reset();
  server_net.emplace(tcp_options{.keys = by_token(ours())});
  server_net->listen(server.end, address);
  expect_talk();
}

TEST_F(TlsNetwork, TellsBothSidesOfAnotherAuthority) {
  const std::string expected = by_certificate(ours(), true)->words(),
                    found = by_certificate(others(), true)->words();
  serve(by_certificate(ours(), true));
  connect(by_certificate(others(), false));
  EXPECT_THAT(client->layers.wait_ended(),
              AllOf(StartsWith("server: " + address), HasSubstr(expected), HasSubstr(found)));
  EXPECT_THAT(server.refused(0),
              AllOf(StartsWith("keys: expected TLS 1.3 with " + expected), HasSubstr(found)));
}

TEST_F(TlsNetwork, TellsBothSidesOfAnotherToken) {
  const std::string expected = by_token(ours())->words(), found = by_token(others())->words();
  serve(by_token(ours()));
  connect(by_token(others()));
  const std::string words = "keys: expected TLS 1.3 with " + expected + ", found " + found;
  EXPECT_EQ(client->layers.wait_ended(),
            "server: " + address + ": refuses: " + words +
                ": give both sides keys of one `mailgrad keys new`, or none on one machine");
  EXPECT_EQ(server.refused(0), words);
}

TEST_F(TlsNetwork, TellsBothSidesOfATokenWhereACertificateIsExpected) {
  serve(by_certificate(ours(), true));
  connect(by_token(ours()));
  EXPECT_THAT(client->layers.wait_ended(),
              AllOf(HasSubstr(by_token(ours())->words()), HasSubstr("'Mailgrad CA ")));
  EXPECT_THAT(server.refused(0),
              AllOf(HasSubstr(by_certificate(ours(), true)->words()), HasSubstr("found token ")));
}

TEST_F(TlsNetwork, TellsBothSidesOfACertificateWhereATokenIsExpected) {
  serve(by_token(ours()));
  connect(by_certificate(ours(), false));
  const std::string expected = by_token(ours())->words(), found = by_certificate(ours(), true)->words();
  EXPECT_THAT(client->layers.wait_ended(),
              AllOf(HasSubstr(expected), HasSubstr(found),
                    HasSubstr(": one side has a token and the other certificates: give both sides the ")));
  EXPECT_THAT(server.refused(0), AllOf(HasSubstr(expected), HasSubstr(found)));
}

TEST_F(TlsNetwork, TellsBothSidesOfAPeerWithoutKeys) {
  serve(by_token(ours()));
  connect(nullptr);
  const std::string words =
      "keys: expected TLS 1.3 with " + by_token(ours())->words() + ", found a peer without keys";
  EXPECT_EQ(client->layers.wait_ended(),
            "server refuses: " + words + ": give --keys with the keys of the server");
  EXPECT_EQ(server.refused(0), words);
}

TEST_F(TlsNetwork, TellsBothSidesOfAServerWithoutKeys) {
  serve(nullptr);
  connect(by_token(ours()));
  EXPECT_THAT(client->layers.wait_ended(),
              AllOf(HasSubstr("expected TLS 1.3 with " + by_token(ours())->words()),
                    HasSubstr("found a server without keys")));
  EXPECT_THAT(server.refused(0), HasSubstr("found TLS: the peer has keys and this side has none"));
}

TEST_F(TlsNetwork, TakesNoServersCertificateFromAWorker) {
  serve(by_certificate(ours(), false));
  connect(by_certificate(ours(), false));
  EXPECT_THAT(client->layers.wait_ended(), HasSubstr("unsuitable certificate purpose"));
}

/// A role is a matter of keys, and not of the names of files.
TEST_F(TlsNetwork, TakesNoParameterHostWithTheCertificateOfAWorker) {
  serve(by_certificate(ours(), true));
  connect(by_certificate(ours(), false), {.part = role::shard});
  EXPECT_THAT(
      client->layers.wait_ended(),
      HasSubstr("keys: expected a certificate of a parameter host, found one that lets nobody serve"));
  client_net->forget(client->end);
  connect(tls_keys::of_certificates(ours().of_shard()), {.part = role::shard});
  EXPECT_TRUE(client->layers.wait_joined()) << client->layers.wait_ended();
}

TEST_F(TlsNetwork, TurnsAwayStrangersAndGoesOnWithTheOthers) {
  serve(by_token(ours()));
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  std::vector<std::unique_ptr<testing::http_client>> strangers;
  for (const std::string text :
       {"", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01", "\x16\x03\x01\x02\x05 no hello of TLS"}) {
    strangers.push_back(std::make_unique<testing::http_client>(port));
    strangers.back()->say(text);
  }
  connect(by_token(ours()));
  expect_talk();
  for (const auto& stranger : strangers) stranger->hear_out(); // until the server has closed
  EXPECT_TRUE(client->layers.kept().ends.empty());
}

TEST_F(TlsNetwork, ListensWithKeysAloneWhereOthersCanConnect) {
  server_net.emplace();
  EXPECT_THAT(
      [&] { server_net->listen(server.end, "0.0.0.0:0"); },
      ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("without keys"), HasSubstr("--keys DIR"))));
  server_net.emplace(tcp_options{.keys = by_token(ours())});
  EXPECT_THAT(server_net->listen(server.end, "0.0.0.0:0"), StartsWith("0.0.0.0:"));
}

TEST_F(TlsNetwork, ConnectsWithKeysAloneToOtherMachines) {
  address = "192.0.2.1:7000"; // of no machine, RFC 5737
  connect(nullptr);
  EXPECT_THAT(client->layers.wait_ended(), AllOf(HasSubstr("cannot connect to 192.0.2.1:7000 without keys"),
                                                 HasSubstr("give --keys with the server's keys")));
}

} // namespace
} // namespace mailgrad::net
