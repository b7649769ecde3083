#pragma once

#include <mailgrad/net/hello.hpp>

#include <cstdint>
#include <map>
#include <variant>

namespace mailgrad::net {

/// Remembers the highest incarnation of every member, so that nobody comes back from the dead as who it was.
///
/// A process that was taken for dead may still live, frozen or cut off. What it sends then belongs to an
/// older incarnation and counts no more; it may join again under a higher one.
/// Threads one caller at a time.
class fence {
public:
  /// More incarnations than this between two that come are no accident: who asked for the last there can be
  /// would shut the seat for good.
  static constexpr std::uint32_t most_missed = 10'000;

  /// Lets the next incarnation in: the one that is wanted, or by 0 the one after the highest. Those before it
  /// are no more from here on.
  /// Returns the incarnation, or the refusal of one that is not higher than all before it, or much too high.
  std::variant<std::uint32_t, refusal> admit(const member& m, std::uint32_t wanted);

  /// Whether it is the highest of its member.
  bool is_current(const member& m, std::uint32_t incarnation) const noexcept;
  /// 0 for a member that was never here.
  std::uint32_t highest(const member& m) const noexcept;

private:
  std::map<member, std::uint32_t> highest_;
};

} // namespace mailgrad::net
