#include <mailgrad/lab/virtual_clock.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad::lab {

void virtual_clock::at(instant when, notice tell) {
  events_.push_back({std::max(when, now_), asked_++, std::move(tell)});
  std::ranges::push_heap(events_, is_later);
}

bool virtual_clock::next() {
  if (events_.empty()) return false;
  std::ranges::pop_heap(events_, is_later);
  const event first = std::move(events_.back());
  events_.pop_back();
  now_ = first.when;
  first.tell();
  return true;
}

} // namespace mailgrad::lab
