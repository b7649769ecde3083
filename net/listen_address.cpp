#include <mailgrad/net/listen_address.hpp>

#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <arpa/inet.h>

#include <limits>
#include <optional>
#include <stdexcept>

namespace mailgrad {

namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view what) {
  throw std::invalid_argument(
      fmt::format("'{}' is no address to listen at: {}; expected HOST:PORT, as 127.0.0.1:8080, 0.0.0.0:80 or "
                  "[::1]:0, where port 0 is any that is free",
                  text, what));
}

bool is_number_of(int family, const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(family, host.c_str(), bytes) == 1;
}

/// The host of "[::1]" or "127.0.0.1"; nothing if it is none.
std::optional<std::string> host_of(std::string_view text) {
  if (text == "localhost") return "127.0.0.1";
  const bool six = text.starts_with('[') && text.ends_with(']') && text.size() > 2;
  std::string host(six ? text.substr(1, text.size() - 2) : text);
  if (host.find('\0') != std::string::npos || !is_number_of(six ? AF_INET6 : AF_INET, host))
    return std::nullopt;
  return host;
}

} // namespace

bool listen_address::is_loopback() const {
  if (in_addr four{}; inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  return inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

listen_address parse_listen_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) refuse(text, "there is no port");
  const std::string_view digits = text.substr(colon + 1);
  const auto port = parse_whole(digits);
  if (!port || digits.size() > 5 || *port > std::numeric_limits<std::uint16_t>::max())
    refuse(text, fmt::format("'{}' is no port from 0 to 65535", digits));
  const auto host = host_of(text.substr(0, colon));
  if (!host) refuse(text, fmt::format("'{}' is no IP address", text.substr(0, colon)));
  return {*host, static_cast<std::uint16_t>(*port)};
}

std::string to_string(const listen_address& a) {
  const bool six = a.host.find(':') != std::string::npos;
  return six ? fmt::format("[{}]:{}", a.host, a.port) : fmt::format("{}:{}", a.host, a.port);
}

} // namespace mailgrad
