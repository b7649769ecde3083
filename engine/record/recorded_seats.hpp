#pragma once

#include <mailgrad/engine/record/recorded_lives.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace mailgrad {

/// The seats that workers took while a recorded run went on, as a replay repeats them: which incarnation
/// comes next as each rank, and before which switch of policy.
///
/// Threads  those of the coordinator that owns it.
class recorded_seats {
public:
  /// Nobody comes.
  recorded_seats() = default;
  explicit recorded_seats(const recorded_lives& of);

  /// Whether anybody is still to come.
  bool any() const;
  /// Whether somebody comes before the next switch, when the policy has switched so often.
  bool any_due(std::uint64_t switches) const;
  /// The incarnation to bring now as this rank, whose seat is free; none if none is due, or if it was
  /// brought.
  std::optional<incarnation> bring(rank worker, std::uint64_t switches);
  /// Whether this incarnation was brought and has no seat yet.
  bool was_brought(rank worker, incarnation life) const;
  /// One that was brought and has no seat yet; none if there is none.
  std::optional<std::pair<rank, incarnation>> brought() const;
  /// It has its seat.
  void sit(rank worker, incarnation life);
  /// Nobody comes any more.
  void clear() { seats_.clear(); }

private:
  struct seat {
    std::vector<recorded_life> lives; ///< that are late
    std::size_t next = 0;
    bool brought = false; ///< the next one is on its way
  };
  static bool is_due(const seat& s, std::uint64_t switches) {
    return s.next < s.lives.size() && s.lives[s.next].switches <= switches;
  }

  std::vector<seat> seats_; ///< by rank
};

} // namespace mailgrad
