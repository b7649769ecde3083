#include <mailgrad/net/memory/memory_address.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace mailgrad::net {

namespace {

constexpr std::string_view memory_scheme = "memory:";
constexpr std::string_view expected_name = "memory:NAME with 1 to 64 letters, digits, '.', '-' or '_'";

/// Not by <cctype>, which asks the user's language.
bool is_in_names(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
         c == '_';
}

[[noreturn]] void refuse(std::string_view address, std::string_view expected) {
  throw std::invalid_argument(
      fmt::format("'{}' is no address in the memory of this machine: expected {}", address, expected));
}

} // namespace

bool is_memory_address(std::string_view address) noexcept { return address.starts_with(memory_scheme); }

std::string parse_memory_listen_address(std::string_view address) {
  if (address == memory_scheme) return "";
  const std::string_view name = address.substr(std::min(memory_scheme.size(), address.size()));
  if (!is_memory_address(address) || name.size() > most_memory_name ||
      !std::ranges::all_of(name, is_in_names))
    refuse(address, fmt::format("{}, or no name for any that is free", expected_name));
  return std::string(name);
}

std::string parse_memory_server_address(std::string_view address) {
  const std::string_view name = address.substr(std::min(memory_scheme.size(), address.size()));
  if (!is_memory_address(address) || name.empty() || name.size() > most_memory_name ||
      !std::ranges::all_of(name, is_in_names))
    refuse(address, expected_name);
  return std::string(name);
}

std::string memory_address(std::string_view name) { return fmt::format("{}{}", memory_scheme, name); }

} // namespace mailgrad::net
