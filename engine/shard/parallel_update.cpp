#include <mailgrad/engine/shard/parallel_update.hpp>
#include <mailgrad/kernels/vectors.hpp>

#include <algorithm>

#include <sched.h>

namespace mailgrad {

void parallel_update::lay_chunks(std::size_t threads) {
  const std::size_t count = std::clamp<std::size_t>(parts_.size(), 1, std::max<std::size_t>(1, threads));
  if (chunks_.size() != count) chunks_ = std::vector<chunk>(count);
  for (std::size_t l = 0; l < count; ++l) {
    chunks_[l].next = parts_.size() * l / count;
    chunks_[l].end = parts_.size() * (l + 1) / count;
  }
}

std::optional<std::size_t> parallel_update::claim() {
  const std::size_t home = static_cast<std::size_t>(std::max(0, sched_getcpu()));
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    chunk& l = chunks_[(home + i) % chunks_.size()];
    if (l.next.load(std::memory_order_relaxed) >= l.end) continue;
    const std::size_t found = l.next.fetch_add(1, std::memory_order_acq_rel);
    if (found < l.end) return found;
  }
  return std::nullopt;
}

parallel_update::progress parallel_update::compute_part() {
  const std::optional<std::size_t> claimed = claim();
  if (!claimed) return progress::nothing_left;
  const part& p = parts_[*claimed];
  const std::span<const float> weights = from_.subspan(p.where.begin, p.where.size());
  const std::span<float> updated = to_.subspan(p.where.begin, p.where.size());
  if (p.learns)
    rule_->update(where_, {weights, updated, std::span(gradients_).subspan(p.first_gradient, p.gradients),
                           step_, p.where.begin, rate_, share_});
  else if (weights.data() != updated.data())
    begin_sum(where_, 1, weights, updated); // a copy
  return missing_.fetch_sub(1, std::memory_order_acq_rel) == 1 ? progress::complete : progress::computed;
}

} // namespace mailgrad
