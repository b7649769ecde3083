#include <mailgrad/net/role.hpp>

#include <fmt/format.h>

#include <array>

namespace mailgrad::net {

namespace {

constexpr std::array<std::string_view, 4> role_names{"server", "worker", "parameter host", "watcher"};
constexpr std::array<std::string_view, 4> wire_names{"server", "worker", "shard", "watcher"};

} // namespace

std::string_view to_string(role r) noexcept { return role_names[static_cast<std::uint8_t>(r)]; }

std::string_view wire_name(role r) noexcept { return wire_names[static_cast<std::uint8_t>(r)]; }

std::optional<role> role_named(std::string_view name) noexcept {
  for (std::size_t i = 0; i < wire_names.size(); ++i)
    if (wire_names[i] == name) return static_cast<role>(i);
  return std::nullopt;
}

std::string to_string(const member& m) {
  return m.part == role::server ? "server" : fmt::format("{} {}", to_string(m.part), m.number);
}

} // namespace mailgrad::net
