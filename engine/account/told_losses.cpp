#include <mailgrad/engine/account/told_losses.hpp>

#include <algorithm>
#include <bit>

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

} // namespace mailgrad
