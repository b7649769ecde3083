#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// A process that takes part in a run over processes, or took part: a worker or a parameter host, as the
/// server knows it.
///
/// Units   times are seconds before now.
struct run_member {
  enum class state : std::uint8_t {
    joined,
    done, ///< it has gone since the run needs it no longer, or was in the run when that ended
    left, ///< of its own will, or as its owner asked
    lost, ///< killed, frozen, cut off, or it failed
  };

  std::string role; ///< "worker", "parameter host"
  std::uint32_t number = 0;
  std::uint32_t incarnation = 1; ///< the last one
  state is = state::joined;
  double since = 0;                    ///< when it joined or went
  std::optional<double> heard{};       ///< when the last byte came; nothing if that is not known
  std::string address{};               ///< where it connects from: "10.0.0.3:51234"
  std::vector<std::string> devices{};  ///< of a worker
  std::vector<std::uint32_t> shards{}; ///< that a parameter host has been given
  std::uint32_t losses = 0;            ///< how often it was lost
  std::string why{};                   ///< last words of the incarnation that went last; empty: none did

  bool stays() const noexcept { return is == state::joined || is == state::done; }
};

/// "joined", "done", "left", "lost"
std::string_view to_string(run_member::state s) noexcept;

/// The most members that are told of one by one.
inline constexpr std::size_t most_members_listed = 64;

/// Of one role, how many are in each state.
struct member_counts {
  std::string role;
  std::array<std::uint64_t, 4> in{}; ///< by state
  std::uint64_t losses = 0;          ///< with those of members that came back
};

/// Each role that is there, in the order in which it comes first.
std::vector<member_counts> counted(const std::vector<run_member>& members);

/// All members as one JSON object without a line feed: `counts` has for each role how many are in each state,
/// and `listed` has at most most_members_listed of them, by role and number. If there are more, those that
/// are lost come first, then those that have left, the latest first, then those that were not heard for
/// longest. Last words and devices are cut, so the object is of bounded size.
std::string to_json(std::vector<run_member> members);

} // namespace mailgrad
