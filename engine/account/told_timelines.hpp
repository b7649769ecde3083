#pragma once

#include <mailgrad/engine/account/clock_bounds.hpp>
#include <mailgrad/engine/account/trace_piece.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {

/// The timeline of one incarnation of a worker in another process, by the clock of this one.
struct told_timeline {
  rank worker;
  std::shared_ptr<const trace_track> track;
  clock_offset clock{}; ///< of its last piece; the uncertainty is the largest of all
  bool whole = false;   ///< the worker has told all; else it was lost
};

/// What workers of other processes tell of their timelines. A lost one has told what it did until a moment
/// before; nothing else is known of it.
///
/// Guarantees  the events of a rank take at most the room of one timeline, however often it comes back. What
///             comes later is only counted. No event ends after its piece has come.
/// Threads     one caller at a time.
class told_timelines {
public:
  /// Of a run that began at `started`, with room for `events` of each rank. 0: nothing is kept.
  told_timelines(instant started, std::size_t events) : started_(started), room_(events) {}

  /// A piece has come `now`. What makes no sense is ignored.
  void take(rank worker, incarnation life, const trace_piece& x, instant now);
  /// This incarnation has told all.
  void complete(rank worker, incarnation life);

  /// In the order of ranks and incarnations.
  std::vector<told_timeline> placed() const;

private:
  struct piece {
    instant sent;
    instant came;
    std::vector<told_event> events;
  };
  struct told {
    std::string device;
    clock_bounds clock{};
    std::vector<piece> pieces{};
    std::uint64_t left_out = 0; ///< by the worker
    std::uint64_t dropped = 0;  ///< here
    bool whole = false;
  };
  struct key {
    rank worker;
    incarnation life;
    auto operator<=>(const key&) const = default;
  };

  told_timeline placed(const key& who, const told& what) const;

  instant started_;
  std::size_t room_;
  std::map<key, told> all_;
  std::map<rank, std::size_t> kept_; ///< events, of all incarnations
};

} // namespace mailgrad
