#include <mailgrad/lab/virtual_clock.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad::lab {

void virtual_clock::at(instant when, owner whose, notice tell) {
  const event asked{std::max(when, now_), asked_++, keep(std::move(tell)), whose};
  if (first_.empty() || is_later(asked, first_.back())) {
    later_.push_back(asked);
    std::ranges::push_heap(later_, is_later);
    return;
  }
  first_.insert(
      std::ranges::upper_bound(first_, asked, [](const event& a, const event& b) { return is_later(b, a); }),
      asked);
  if (first_.size() <= 2 * std::size_t(foresight::some)) return;
  later_.push_back(first_.back());
  std::ranges::push_heap(later_, is_later);
  first_.pop_back();
}

std::uint32_t virtual_clock::keep(notice tell) {
  if (free_.empty()) {
    notices_.push_back(std::move(tell));
    return static_cast<std::uint32_t>(notices_.size() - 1);
  }
  const std::uint32_t place = free_.back();
  free_.pop_back();
  notices_[place] = std::move(tell);
  return place;
}

/// Takes so many that each is foreseen in time.
void virtual_clock::take_first() {
  while (first_.size() <= std::size_t(foresight::some) && !later_.empty()) {
    std::ranges::pop_heap(later_, is_later);
    first_.push_back(later_.back());
    later_.pop_back();
  }
}

void virtual_clock::foresee_at(foresight before) const {
  if (first_.size() <= std::size_t(before)) return;
  const owner whose = first_[std::size_t(before)].whose;
  if (whose != nobody) foresee_(whose, before);
}

bool virtual_clock::next() {
  take_first();
  if (first_.empty()) return false;
  if (foresee_)
    for (const foresight before : {foresight::some, foresight::few, foresight::hardly_any})
      foresee_at(before);
  const event first = first_.front();
  first_.erase(first_.begin());
  now_ = first.when;
  const notice tell = std::exchange(notices_[first.place], nullptr);
  free_.push_back(first.place);
  tell();
  return true;
}

void virtual_clock::clear() noexcept {
  first_.clear();
  later_.clear();
  notices_.clear();
  free_.clear();
}

} // namespace mailgrad::lab
