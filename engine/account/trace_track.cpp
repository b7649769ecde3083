#include <mailgrad/engine/account/trace_track.hpp>

namespace mailgrad {

void trace_track::work(trace_event e) noexcept {
  e.begin = std::max(e.begin, end_);
  e.end = std::max(e.end, e.begin);
  end_ = e.end;
  keep(e);
}

void trace_track::keep(const trace_event& e) noexcept {
  if (events_.size() < events_.capacity())
    events_.push_back(e);
  else
    ++left_out_;
}

namespace {

constexpr std::int64_t most_ns = std::int64_t{1} << 61; ///< of which three can be added

bool is_moment(std::int64_t t) { return t >= 0 && t <= most_ns; }

/// The number of a word among those of a piece, from 1, which are few; 0 if it has none.
std::uint32_t number_of(std::string_view word, std::vector<std::string>& words) {
  if (word.empty() || word.size() > trace_piece::longest_word) return 0;
  const auto found = std::ranges::find(words, word);
  if (found != words.end()) return static_cast<std::uint32_t>(found - words.begin()) + 1;
  if (words.size() >= trace_piece::most_words) return 0;
  words.emplace_back(word);
  return static_cast<std::uint32_t>(words.size());
}

} // namespace

bool trace_piece::makes_sense() const {
  const auto is_event = [this](const reported_event& e) {
    return is_moment(e.ago) && e.span >= 0 && e.span <= e.ago && e.word <= words.size();
  };
  return events.size() <= most_events && words.size() <= most_words && is_moment(sent) &&
         is_moment(answered.value_or(0)) && std::ranges::all_of(events, is_event) &&
         std::ranges::all_of(words, [](const std::string& w) { return w.size() <= longest_word; });
}

void tell_from(const trace_track& track, std::size_t first, trace_piece& into) {
  const std::size_t end = std::min(track.events().size(), first + trace_piece::most_events);
  for (std::size_t i = first; i < end; ++i) {
    const trace_event& e = track.events()[i];
    const instant ago = std::max(instant{into.sent} - e.begin, instant{0});
    into.events.push_back({e.what, ago.count(), std::min(e.end - e.begin, ago).count(), e.peer, e.step,
                           e.version_read, e.version, number_of(e.word, into.words)});
  }
}

/// Bounds that exclude each other are those of a clock that was set, or whose machine slept.
clock_offset clock_bounds::offset_in(const bounds& b) {
  if (!b.least || *b.least > b.most) return {b.most, std::nullopt};
  if (*b.least <= instant{0} && b.most >= instant{0}) return {instant{0}, std::max(-*b.least, b.most)};
  const instant half = (b.most - *b.least) / 2;
  return {*b.least + half, half};
}

std::vector<clock_offset> clock_bounds::offsets() const {
  std::vector<bounds> all = messages_;
  for (std::size_t i = 1; i < all.size(); ++i) narrow(all[i], all[i - 1]);
  for (std::size_t i = all.size(); i-- > 1;) narrow(all[i - 1], all[i]);
  std::vector<clock_offset> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool contradicts = all[i].least && *all[i].least > all[i].most;
    found.push_back(offset_in(contradicts ? messages_[i] : all[i]));
  }
  return found;
}

} // namespace mailgrad
