#include <mailgrad/net/tcp/tcp_host.hpp>

#include <mailgrad/tests/net/tcp/plain_listener.hpp>

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

namespace mailgrad::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// A dialer to a name, about which the test says what the system would say.
struct TcpDialer : ::testing::Test {
  /// The answers come one after the other; after the last one the name is that of `there`.
  tcp_dialer::outcome dial(std::vector<error_code> failures, instant patience) {
    const std::string at = there.address();
    const auto port = static_cast<std::uint16_t>(std::stoi(at.substr(at.rfind(':') + 1)));
    tcp_dialer::plan plan{"somewhere", port, patience, 10s, true};
    plan.look_up = [this, failures, port](const tcp_dialer::found& told) {
      const std::size_t i = asked++;
      if (i < failures.size()) return told(failures[i], {});
      told({}, {tcp::endpoint(asio::ip::address_v4::loopback(), port)});
    };
    std::optional<tcp_dialer::outcome> came;
    std::make_shared<tcp_dialer>(io, std::move(plan), [&](tcp_dialer::outcome x) {
      came.emplace(std::move(x));
    })->begin();
    io.run();
    return std::move(came.value());
  }

  plain_listener there;
  asio::io_context io;
  std::size_t asked = 0;
};

const error_code try_again = asio::error::host_not_found_try_again;

/// As while a network begins.
TEST_F(TcpDialer, AsksAgainWhileNobodyCanSayWhetherThereIsSuchAName) {
  const tcp_dialer::outcome found = dial({try_again, try_again}, 60s);
  EXPECT_EQ(found.words, "");
  EXPECT_TRUE(found.socket.is_open());
  EXPECT_EQ(asked, 3U);
}

TEST_F(TcpDialer, FindsAServerAtEitherAddressOfThisMachine) {
  for (const asio::ip::address& at : {asio::ip::address(asio::ip::address_v4::loopback()),
                                      asio::ip::address(asio::ip::address_v6::loopback())}) {
    error_code none;
    tcp::acceptor server(io);
    server.open(tcp::endpoint(at, 0).protocol(), none);
    if (!none) server.bind(tcp::endpoint(at, 0), none);
    if (!none) server.listen(1, none);
    if (none) continue; // a machine without IPv6
    std::optional<tcp_dialer::outcome> came;
    tcp_dialer::plan plan{"localhost", server.local_endpoint().port(), 0s, 10s, true};
    std::make_shared<tcp_dialer>(io, std::move(plan), [&](tcp_dialer::outcome x) {
      came.emplace(std::move(x));
    })->begin();
    io.restart();
    io.run();
    EXPECT_EQ(came.value().words, "");
    EXPECT_EQ(came.value().socket.remote_endpoint().address(), at);
  }
}

TEST_F(TcpDialer, GivesANameUpWhenItsPatienceIsOver) {
  EXPECT_THAT(dial({try_again, try_again}, 0s).words, HasSubstr("there is no host 'somewhere'"));
  EXPECT_EQ(asked, 1U);
}

TEST_F(TcpDialer, GivesANameUpThatThereIsNot) {
  EXPECT_THAT(dial({asio::error::host_not_found}, 60s).words, HasSubstr("there is no host 'somewhere'"));
  EXPECT_EQ(asked, 1U);
}

} // namespace
} // namespace mailgrad::net
