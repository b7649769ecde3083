#include <mailgrad/engine/account/told_timelines.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mailgrad {

namespace {

constexpr std::size_t longest_device = 64;

/// As a worker has written it, without what a terminal would obey.
std::string printable_device(const std::string& told) {
  std::string device = told.substr(0, longest_device);
  std::erase_if(device, [](char c) { return c < ' ' || c > '~'; });
  return device;
}

/// Incarnations are counted from 1 for people.
std::string track_name_of(rank worker, incarnation life, const std::string& device) {
  const std::string name = fmt::format("worker {} on {}", worker.value, device);
  return life.value == 0 ? name : fmt::format("{}, incarnation {}", name, life.value + 1);
}

} // namespace

/// A piece without events serves the clocks, once for each incarnation.
void told_timelines::take(rank worker, incarnation life, const trace_piece& x, instant now) {
  if (room_ == 0 || !x.makes_sense()) return;
  told& of = all_[{worker, life}];
  of.device = printable_device(x.device);
  of.left_out = x.left_out;
  if (x.answered) of.clock.answer(instant{*x.answered});
  if (x.events.empty() && !of.pieces.empty()) return;
  const std::size_t kept = std::min(room_ - kept_[worker], x.events.size());
  of.dropped += x.events.size() - kept;
  if (kept == 0 && !of.pieces.empty()) return;
  kept_[worker] += kept;
  of.clock.add(instant{x.sent}, now);
  of.pieces.push_back(
      {instant{x.sent}, now, {x.events.begin(), x.events.begin() + static_cast<std::ptrdiff_t>(kept)}});
}

void told_timelines::complete(rank worker, incarnation life) {
  if (const auto found = all_.find({worker, life}); found != all_.end()) found->second.whole = true;
}

told_timeline told_timelines::placed(const key& who, const told& what) const {
  std::size_t events = 0;
  for (const piece& p : what.pieces) events += p.events.size();
  const auto track =
      std::make_shared<trace_track>(track_name_of(who.worker, who.life, what.device), events, started_);
  track->leave_out(what.left_out + what.dropped);
  told_timeline made{who.worker, track, {instant{0}, instant{0}}, what.whole};
  const std::vector<clock_offset> offsets = what.clock.offsets();
  for (std::size_t i = 0; i < what.pieces.size(); ++i) {
    const piece& p = what.pieces[i];
    const clock_offset& by = offsets[i];
    for (const told_event& e : p.events) {
      const instant begin = std::min(p.sent - instant{e.ago} + by.value, p.came);
      track->work({e.what, begin, std::min(begin + instant{e.span}, p.came), e.peer, e.step, e.version_read,
                   e.version});
    }
    made.clock.value = by.value;
    if (!by.uncertainty)
      made.clock.uncertainty.reset();
    else if (made.clock.uncertainty)
      made.clock.uncertainty = std::max(*made.clock.uncertainty, *by.uncertainty);
  }
  return made;
}

std::vector<told_timeline> told_timelines::placed() const {
  std::vector<told_timeline> all;
  for (const auto& [who, what] : all_) all.push_back(placed(who, what));
  return all;
}

} // namespace mailgrad
