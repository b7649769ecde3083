#include <mailgrad/engine/record/recorded_seats.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace mailgrad {

recorded_seats::recorded_seats(const recorded_lives& of) : seats_(of.ranks()) {
  for (std::size_t r = 0; r < seats_.size(); ++r)
    std::ranges::copy_if(of.of(r), std::back_inserter(seats_[r].lives), &recorded_life::late);
}

bool recorded_seats::any() const {
  return std::ranges::any_of(seats_, [](const seat& s) { return s.next < s.lives.size(); });
}

bool recorded_seats::any_due(std::uint64_t switches) const {
  return std::ranges::any_of(seats_, [=](const seat& s) { return is_due(s, switches); });
}

std::optional<incarnation> recorded_seats::bring(rank worker, std::uint64_t switches) {
  if (worker.value >= seats_.size()) return std::nullopt;
  seat& s = seats_[worker.value];
  if (!is_due(s, switches) || std::exchange(s.brought, true)) return std::nullopt;
  return s.lives[s.next].life;
}

bool recorded_seats::was_brought(rank worker, incarnation life) const {
  if (worker.value >= seats_.size()) return false;
  const seat& s = seats_[worker.value];
  return s.brought && s.lives[s.next].life == life;
}

std::optional<std::pair<rank, incarnation>> recorded_seats::brought() const {
  const auto one = std::ranges::find(seats_, true, &seat::brought);
  if (one == seats_.end()) return std::nullopt;
  return std::pair{rank{static_cast<std::uint32_t>(one - seats_.begin())}, one->lives[one->next].life};
}

void recorded_seats::sit(rank worker, incarnation life) {
  if (!was_brought(worker, life)) return;
  seat& s = seats_[worker.value];
  s.brought = false;
  ++s.next;
}

} // namespace mailgrad
