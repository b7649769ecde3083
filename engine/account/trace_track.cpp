#include <mailgrad/engine/account/trace_track.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad {

trace_track::trace_track(std::string name, std::size_t capacity, instant start)
    : name_(std::move(name)), end_(start) {
  events_.reserve(capacity);
}

void trace_track::work(trace_event e) noexcept {
  e.begin = std::max(e.begin, end_);
  e.end = std::max(e.end, e.begin);
  end_ = e.end;
  keep(e);
}

void trace_track::wait(trace_kind what, instant end, std::uint32_t peer) noexcept {
  if (end <= end_) return;
  keep({what, end_, end, peer});
  end_ = end;
}

void trace_track::moment(const trace_event& e) noexcept { keep(e); }

void trace_track::keep(const trace_event& e) noexcept {
  if (events_.size() < events_.capacity())
    events_.push_back(e);
  else
    ++left_out_;
}

} // namespace mailgrad
