#include <mailgrad/engine/account/trace_piece.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

constexpr std::int64_t most_ns = std::int64_t{1} << 61; ///< of which three can be added

bool is_moment(std::int64_t t) { return t >= 0 && t <= most_ns; }

} // namespace

bool trace_piece::makes_sense() const {
  return events.size() <= most_events && is_moment(sent) && is_moment(answered.value_or(0)) &&
         std::ranges::all_of(
             events, [](const told_event& e) { return is_moment(e.ago) && e.span >= 0 && e.span <= e.ago; });
}

std::vector<told_event> told_from(const trace_track& track, std::size_t first, instant sent) {
  const std::size_t end = std::min(track.events().size(), first + trace_piece::most_events);
  std::vector<told_event> told;
  for (std::size_t i = first; i < end; ++i) {
    const trace_event& e = track.events()[i];
    const instant ago = std::max(sent - e.begin, instant{0});
    told.push_back({e.what, ago.count(), std::min(e.end - e.begin, ago).count(), e.peer, e.step,
                    e.version_read, e.version});
  }
  return told;
}

} // namespace mailgrad
