#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/options/number.hpp>

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

/// Which addresses are read, for the words of a refusal.
struct use {
  std::string_view name, expected;
};
constexpr use to_listen{
    "address to listen at",
    "HOST:PORT, as 127.0.0.1:8080, 0.0.0.0:80 or [::1]:0, where port 0 is any that is free"};
constexpr use to_connect{"address of a server",
                         "HOST:PORT, as 127.0.0.1:7000, [::1]:7000 or node3.local:7000"};

[[noreturn]] void refuse(const use& u, std::string_view text, std::string_view what) {
  throw std::invalid_argument(fmt::format("'{}' is no {}: {}; expected {}", text, u.name, what, u.expected));
}

/// The number of a host as the system has it, if it is one of this family.
template <class Number>
std::optional<Number> number_of(int family, const std::string& host) {
  Number found{};
  return inet_pton(family, host.c_str(), &found) == 1 ? std::optional(found) : std::nullopt;
}

/// The host of "[::1]" or "127.0.0.1"; nothing if it is none.
std::optional<std::string> host_of(std::string_view text) {
  if (text == "localhost") return "127.0.0.1";
  const bool six = text.starts_with('[') && text.ends_with(']') && text.size() > 2;
  std::string host(six ? text.substr(1, text.size() - 2) : text);
  if (host.find('\0') != std::string::npos) return std::nullopt;
  const bool is_one =
      six ? number_of<in6_addr>(AF_INET6, host).has_value() : number_of<in_addr>(AF_INET, host).has_value();
  return is_one ? std::optional(std::move(host)) : std::nullopt;
}

/// Host and port of "HOST:PORT"; the host is any text.
std::pair<std::string_view, std::uint16_t> parts_of(const use& u, std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) refuse(u, text, "there is no port");
  const std::string_view digits = text.substr(colon + 1);
  const auto port = parse_whole(digits);
  if (!port || digits.size() > 5 || *port > std::numeric_limits<std::uint16_t>::max())
    refuse(u, text, fmt::format("'{}' is no port from 0 to 65535", digits));
  return {text.substr(0, colon), static_cast<std::uint16_t>(*port)};
}

/// Not by <cctype>, which asks the user's language.
bool is_in_names(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
         c == '_';
}

/// Whether a text may be the name of a host. What ends as a number does is none, since the system would read
/// "127.1" and "0x7f000001" as addresses.
bool is_name(std::string_view host) {
  constexpr std::size_t longest_name = 253;
  if (host.empty() || host.size() > longest_name || !std::ranges::all_of(host, is_in_names)) return false;
  const std::string_view last = host.substr(host.rfind('.') + 1);
  return last.find_first_not_of("0123456789") != std::string_view::npos && !last.starts_with("0x") &&
         !last.starts_with("0X");
}

constexpr std::string_view memory_scheme = "memory:", mpi_scheme = "mpi:";
constexpr std::uint64_t most_rank = 9'999'999;

/// The name behind "memory:".
std::string name_in(std::string_view address, std::size_t shortest, std::string_view or_none) {
  const std::string_view name = address.substr(std::min(memory_scheme.size(), address.size()));
  if (!address.starts_with(memory_scheme) || name.size() < shortest || name.size() > net::most_memory_name ||
      !std::ranges::all_of(name, is_in_names))
    throw std::invalid_argument(
        fmt::format("'{}' is no address in the memory of this machine: expected memory:NAME "
                    "with 1 to 64 letters, digits, '.', '-' or '_'{}",
                    address, or_none));
  return std::string(name);
}

} // namespace

bool listen_address::is_loopback() const {
  if (const auto four = number_of<in_addr>(AF_INET, host)) return ntohl(four->s_addr) >> 24 == 127;
  const auto six = number_of<in6_addr>(AF_INET6, host);
  return six && IN6_IS_ADDR_LOOPBACK(&*six);
}

bool listen_address::is_every_network() const {
  if (const auto four = number_of<in_addr>(AF_INET, host)) return four->s_addr == INADDR_ANY;
  const auto six = number_of<in6_addr>(AF_INET6, host);
  return six && IN6_IS_ADDR_UNSPECIFIED(&*six);
}

listen_address parse_listen_address(std::string_view text) {
  const auto [found, port] = parts_of(to_listen, text);
  const auto host = host_of(found);
  if (!host) refuse(to_listen, text, fmt::format("'{}' is no IP address", found));
  return {*host, port};
}

listen_address parse_server_address(std::string_view text) {
  const auto [found, port] = parts_of(to_connect, text);
  if (port == 0) refuse(to_connect, text, "port 0 is none that a server has");
  if (const auto number = host_of(found)) return {*number, port};
  if (!is_name(found))
    refuse(to_connect, text, fmt::format("'{}' is neither an IP address nor a name", found));
  return {std::string(found), port};
}

std::string to_string(const listen_address& a) {
  const bool six = a.host.find(':') != std::string::npos;
  return six ? fmt::format("[{}]:{}", a.host, a.port) : fmt::format("{}:{}", a.host, a.port);
}

} // namespace mailgrad

namespace mailgrad::net {

bool is_memory_address(std::string_view address) noexcept { return address.starts_with(memory_scheme); }
bool is_mpi_address(std::string_view address) noexcept { return address.starts_with(mpi_scheme); }

std::string memory_address(std::string_view name) { return fmt::format("{}{}", memory_scheme, name); }
std::string mpi_address(int rank) { return fmt::format("{}{}", mpi_scheme, rank); }

std::string parse_memory_listen_address(std::string_view address) {
  return name_in(address, 0, ", or no name for any that is free");
}
std::string parse_memory_server_address(std::string_view address) { return name_in(address, 1, ""); }

int parse_mpi_address(std::string_view address) {
  const auto rank =
      is_mpi_address(address) ? parse_whole(std::string(address.substr(mpi_scheme.size()))) : std::nullopt;
  if (!rank || *rank > most_rank)
    throw std::invalid_argument(
        fmt::format("'{}' is no address of MPI: expected mpi:RANK, as mpi:0 for the first rank", address));
  return static_cast<int>(*rank);
}

} // namespace mailgrad::net
