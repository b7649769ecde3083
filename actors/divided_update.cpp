#include <mailgrad/actors/divided_update.hpp>

#include <algorithm>

namespace mailgrad {

divided_update::progress divided_update::compute_part(const stream& s) {
  const std::size_t i = next_.fetch_add(1, std::memory_order_acq_rel);
  if (i >= parts_.size()) return progress::nothing_left;
  const part& p = parts_[i];
  const std::span<const float> weights = from_.subspan(p.where.begin, p.where.size());
  const std::span<float> updated = to_.subspan(p.where.begin, p.where.size());
  if (p.learns)
    rule_->update(s, {weights, updated, std::span(gradients_).subspan(p.first_gradient, p.gradients), step_,
                      p.where.begin, rate_});
  else if (weights.data() != updated.data())
    std::ranges::copy(weights, updated.begin());
  return missing_.fetch_sub(1, std::memory_order_acq_rel) == 1 ? progress::complete : progress::computed;
}

} // namespace mailgrad
