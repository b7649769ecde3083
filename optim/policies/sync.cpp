#include <mailgrad/optim/policies/sync.hpp>

#include <algorithm>

namespace mailgrad {

std::size_t sync_policy::count(standing s) const {
  return static_cast<std::size_t>(std::ranges::count(workers_, s));
}

void sync_policy::join(rank worker) {
  if (workers_.size() <= worker.value) workers_.resize(worker.value + 1, standing::absent);
  workers_[worker.value] = standing::computing;
}

/// A gradient that has arrived stays in its batch; its worker is only no longer waited for.
void sync_policy::leave(rank worker) {
  standing& s = workers_[worker.value];
  s = s == standing::arrived || s == standing::leaving ? standing::leaving : standing::absent;
}

decision sync_policy::judge(const gradient_stamp& g) {
  standing& s = workers_[g.worker.value];
  if (s != standing::computing) return {verdict::discard, "not awaited"};
  s = standing::arrived;
  return {verdict::merge};
}

bool sync_policy::batch_complete() const {
  return count(standing::arrived) + count(standing::leaving) > 0 && count(standing::computing) == 0;
}

void sync_policy::batch_applied() {
  std::ranges::replace(workers_, standing::arrived, standing::computing);
  std::ranges::replace(workers_, standing::leaving, standing::absent);
}

bool sync_policy::may_start(rank worker) const { return workers_[worker.value] == standing::computing; }

} // namespace mailgrad
