#include <mailgrad/engine/record/recorded_batches.hpp>

#include <utility>

namespace mailgrad {

recorded_batches::recorded_batches(std::shared_ptr<const recording> what)
    : what_(std::move(what)), lives_(*what_), now_(lives_.ranks()), dealt_(lives_.ranks()),
      at_switch_(lives_.ranks()), gone_(lives_.ranks()) {
  for (std::uint32_t r = 0; r < what_->header.workers; ++r) now_[r] = incarnation{};
}

/// One that the recording does not know gets nothing.
void recorded_batches::begin(rank worker, incarnation life) {
  now_[worker.value] = life;
  gone_[worker.value] = at_switch_[worker.value] = false;
  if (const recorded_life* one = lives_.find(worker, life)) dealt_[worker.value] = one->first;
}

bool recorded_batches::holds(rank worker) const {
  const std::size_t r = worker.value;
  return switch_left() && takes_part(r) &&
         dealt_[r] >= lives_.batches_before(what_->end.switches[passed_], passed_, r);
}

/// Whether who asks now as this rank takes part in the next switch, and not an incarnation after it.
bool recorded_batches::takes_part(std::size_t r) const {
  if (what_->end.switches[passed_].present[r] == 0 || !now_[r]) return false;
  const recorded_life* one = lives_.before_switch(r, passed_);
  return one != nullptr && one->life == *now_[r];
}

std::optional<std::uint64_t> recorded_batches::next(rank worker) {
  const std::size_t r = worker.value;
  const recorded_life* one = now_[r] ? lives_.find(worker, *now_[r]) : nullptr;
  if (one == nullptr || dealt_[r] >= one->end) return std::nullopt;
  return what_->batches[r][dealt_[r]++];
}

bool recorded_batches::is_at_switch(std::size_t r) const {
  return what_->end.switches[passed_].present[r] == 0 || (takes_part(r) && (at_switch_[r] || gone_[r]));
}

std::optional<std::uint64_t> recorded_batches::reached_switch() {
  if (!switch_left() || told_ > passed_) return std::nullopt;
  for (std::size_t r = 0; r < gone_.size(); ++r)
    if (!is_at_switch(r)) return std::nullopt;
  return told_ = passed_ + 1;
}

/// Clears the list of waiting workers, because they ask again after the switch.
void recorded_batches::pass_switch() {
  ++passed_;
  at_switch_.assign(at_switch_.size(), false);
}

void recorded_batches::go_on_from(std::span<const std::uint64_t> trained, std::uint64_t switches) {
  dealt_.assign(trained.begin(), trained.end());
  dealt_.resize(gone_.size());
  passed_ = told_ = switches;
}

} // namespace mailgrad
