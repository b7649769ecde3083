#pragma once

#include <mailgrad/engine/account/time_source.hpp>

#include <optional>
#include <vector>

namespace mailgrad {

/// What is added to a moment of another process's clock to make it one of this process's.
struct clock_offset {
  instant value{0};
  std::optional<instant> uncertainty{}; ///< how far it may be wrong; none: nothing came back to that process
};

/// How far two clocks are apart, by the messages that went between their processes.
///
///     sent, by the other clock -----------> came, by this clock
///     answered, by the other clock <------- at once
///
/// A message comes after it was sent, and its answer likewise, so the offset is at least `came - answered`
/// and at most `came - sent`. That holds whatever share of the round trip each way has. The bounds of
/// messages before and after count as well, each made wider by what the clocks may have drifted apart since:
/// a message whose way was short tells of those around it.
/// Units   of both clocks nanoseconds. Drift of two clocks: at most 100 us a second.
class clock_bounds {
public:
  /// Such a message came.
  void add(instant sent, instant came);
  /// The other process had the answer to the last message at this moment, or to a later one that is not told
  /// here. A moment before it was sent is ignored.
  void answer(instant answered);

  /// For each message, in their order. An offset that may be 0 is 0, since both clocks are then those of one
  /// machine, as far as anybody can tell.
  std::vector<clock_offset> offsets() const;

private:
  struct bounds {
    instant sent;
    instant came;
    std::optional<instant> least;
    instant most;
  };

  static void narrow(bounds& by, const bounds& other);
  static clock_offset offset_in(const bounds& b);

  std::vector<bounds> messages_;
};

} // namespace mailgrad
