#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mailgrad::net {

/// What a process is to the run.
enum class role : std::uint8_t { server, worker, shard, watcher };

/// What people are told: "worker", "parameter host"
std::string_view to_string(role r) noexcept;
/// What peers are told: "worker", "shard"
std::string_view wire_name(role r) noexcept;
/// The role of such a name.
std::optional<role> role_named(std::string_view name) noexcept;

/// A process of a run among those of its role, numbered from 0.
struct member {
  role part = role::worker;
  std::uint32_t number = 0;

  friend auto operator<=>(const member&, const member&) = default;
};

/// "worker 2"; "server" without a number, since there is one.
std::string to_string(const member& m);

} // namespace mailgrad::net
