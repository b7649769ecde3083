#include <mailgrad/engine/account/told_losses.hpp>

#include <algorithm>

namespace mailgrad {

void told_losses::take(rank worker, std::uint64_t steps, std::uint64_t samples, double loss_sum) {
  if (worker.value >= tails_.size() || steps == 0 || samples == 0) return;
  const auto mean = static_cast<float>(loss_sum / static_cast<double>(samples));
  const std::uint64_t of_a_step = std::max<std::uint64_t>(1, samples / steps);
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(steps, loss_tail::steps); ++i)
    tails_[worker.value].add(mean, of_a_step);
}

void told_losses::give(rank worker, loss_tail& known) const {
  if (tails_[worker.value].samples() > 0) known = tails_[worker.value];
}

} // namespace mailgrad
