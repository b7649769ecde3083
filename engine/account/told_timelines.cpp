#include <mailgrad/engine/account/told_timelines.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

namespace mailgrad {

void told_losses::begin(rank worker) {
  all_[worker.value].done = {};
  all_[worker.value].sums = {};
}

void told_losses::add(rank worker, const worker_sums& more) {
  if (worker.value < all_.size()) all_[worker.value].sums.add(more);
}

void told_losses::take(rank worker, std::uint64_t steps, std::uint64_t samples, double loss_sum) {
  if (worker.value >= all_.size() || steps == 0 || samples == 0) return;
  told& of = all_[worker.value];
  of.done.steps += steps;
  of.done.samples += samples;
  of.last = static_cast<float>(loss_sum / static_cast<double>(samples));
  const std::uint64_t of_a_step = std::max<std::uint64_t>(1, samples / steps);
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(steps, loss_tail::steps); ++i)
    of.tail.add(of.last, of_a_step);
}

void told_losses::give(worker_report& known, const worker_report& copy) const {
  const told& of = all_[known.worker.value];
  known.add(of.sums);
  known.raise_to(copy);
  if (of.tail.samples() == 0) return;
  known.last_losses = of.tail;
  known.loss_bits = std::bit_cast<std::uint32_t>(of.last);
}

namespace {

constexpr std::size_t longest_text = 64;

/// As the other process has written it, without what a terminal would obey.
std::string printable(const std::string& told) {
  std::string text = told.substr(0, longest_text);
  std::erase_if(text, [](char c) { return c < ' ' || c > '~'; });
  return text;
}

/// Incarnations are counted from 1 for people.
std::string track_name_of(const timeline_teller& who, const std::string& device) {
  if (who.shard) return fmt::format("shard {}", who.shard->value);
  const std::string name = fmt::format("worker {} on {}", who.worker.value, device);
  return who.life.value == 0 ? name : fmt::format("{}, incarnation {}", name, who.life.value + 1);
}

/// The words of a piece belong to the track from now on. The first is none.
std::vector<std::string_view> owned(const std::vector<std::string>& words, trace_track& by) {
  std::vector<std::string_view> all{{}};
  for (const std::string& w : words) all.push_back(by.own(w));
  return all;
}

} // namespace

/// A piece without events serves the clocks, once for each incarnation.
void told_timelines::take(const timeline_teller& by, const trace_piece& x, instant now) {
  if (room_ == 0 || !x.makes_sense()) return;
  told& of = all_[by];
  of.device = printable(x.device);
  of.left_out = x.left_out;
  if (x.answered) of.clock.answer(instant{*x.answered});
  if (x.events.empty() && !of.pieces.empty()) return;
  std::size_t& all_kept = kept_[{by.shard, by.worker, {}}];
  const std::size_t kept = std::min(room_ - all_kept, x.events.size());
  of.dropped += x.events.size() - kept;
  if (kept == 0 && !of.pieces.empty()) return;
  all_kept += kept;
  of.clock.add(instant{x.sent}, now);
  std::vector<std::string> words;
  for (const std::string& w : x.words) words.push_back(printable(w));
  of.pieces.push_back({instant{x.sent},
                       now,
                       {x.events.begin(), x.events.begin() + static_cast<std::ptrdiff_t>(kept)},
                       std::move(words)});
}

void told_timelines::complete(const timeline_teller& by) {
  if (const auto found = all_.find(by); found != all_.end()) found->second.whole = true;
}

told_timeline told_timelines::placed(const timeline_teller& who, const told& what) const {
  std::size_t events = 0;
  for (const piece& p : what.pieces) events += p.events.size();
  const auto track = std::make_shared<trace_track>(track_name_of(who, what.device), events, started_);
  track->leave_out(what.left_out + what.dropped);
  told_timeline made{who, track, {instant{0}, instant{0}}, what.whole};
  const std::vector<clock_offset> offsets = what.clock.offsets();
  for (std::size_t i = 0; i < what.pieces.size(); ++i) {
    const piece& p = what.pieces[i];
    const clock_offset& by = offsets[i];
    const std::vector<std::string_view> words = owned(p.words, *track);
    for (const told_event& e : p.events) {
      const instant begin = std::min(p.sent - instant{e.ago} + by.value, p.came);
      const trace_event there{e.what,    begin,        std::min(begin + instant{e.span}, p.came),
                              e.peer,    e.step,       e.version_read,
                              e.version, words[e.word]};
      if (is_moment(e.what))
        track->moment(there);
      else
        track->work(there);
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
