#include <mailgrad/engine/record/recorded_batches.hpp>

#include <utility>

namespace mailgrad {

recorded_batches::recorded_batches(std::shared_ptr<const recording> what)
    : what_(std::move(what)), dealt_(what_->header.workers), at_switch_(what_->header.workers),
      gone_(what_->header.workers) {}

bool recorded_batches::holds(rank worker) const {
  if (!switch_left()) return false;
  const recorded_switch& next = what_->end.switches[passed_];
  return next.present[worker.value] != 0 && dealt_[worker.value] >= next.batches[worker.value];
}

std::optional<std::uint64_t> recorded_batches::next(rank worker) {
  const std::vector<std::uint64_t>& numbers = what_->batches[worker.value];
  std::uint64_t& dealt = dealt_[worker.value];
  if (dealt >= numbers.size()) return std::nullopt;
  return numbers[dealt++];
}

std::optional<std::uint64_t> recorded_batches::reached_switch() {
  if (!switch_left() || told_ > passed_) return std::nullopt;
  const recorded_switch& next = what_->end.switches[passed_];
  for (std::size_t r = 0; r < gone_.size(); ++r)
    if (next.present[r] != 0 && !at_switch_[r] && !gone_[r]) return std::nullopt;
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
