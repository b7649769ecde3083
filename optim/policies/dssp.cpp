#include <mailgrad/optim/policies/dssp.hpp>

#include <algorithm>
#include <limits>

namespace mailgrad {

namespace {

/// The most steps to look ahead; a worker's pace is not steady for longer.
constexpr std::uint64_t most_ahead = 1000;

} // namespace

void dssp_policy::join(rank worker) {
  clocks_.join(worker);
  if (rhythms_.size() <= worker.value) rhythms_.resize(worker.value + 1);
  rhythms_[worker.value] = {};
}

decision dssp_policy::judge(const gradient_stamp& g) {
  if (!clocks_.present(g.worker)) return {verdict::discard, "not awaited"};
  clocks_.tick(g.worker);
  rhythm& r = rhythms_[g.worker.value];
  if (r.last != 0) r.interval = g.arrived - r.last;
  r.last = g.arrived;
  const std::uint64_t clock = clocks_.of(g.worker);
  const bool asks = clocks_.lead(g.worker) > lo_ && clocks_.is_fastest(g.worker);
  if (asks && clock > r.allowed) r.allowed = clock + extra_steps(g.worker);
  return {verdict::apply};
}

/// The extra steps are counted from the gradient that exceeded lo: 0 means that the worker waits.
bool dssp_policy::may_start(rank worker) const {
  if (!clocks_.present(worker)) return false;
  const std::uint64_t lead = clocks_.lead(worker);
  if (lead <= lo_) return true;
  return lead <= hi_ && clocks_.of(worker) < rhythms_[worker.value].allowed;
}

void dssp_policy::keep(archive& a) {
  a.version(1);
  a.field("workers", clocks_);
  a.field("rhythms", rhythms_);
  rhythms_.resize(std::max(rhythms_.size(), clocks_.size()));
}

rank dssp_policy::slowest() const {
  std::uint32_t r = 0;
  while (!clocks_.present({r}) || clocks_.of({r}) != *clocks_.slowest()) ++r;
  return {r};
}

/// r in 0 .. hi - lo for which the worker's r-th gradient from now comes nearest to one of the slowest's.
std::uint64_t dssp_policy::extra_steps(rank worker) const {
  const rhythm& fast = rhythms_[worker.value];
  const rhythm& slow = rhythms_[slowest().value];
  if (fast.interval <= 0 || slow.interval <= 0) return 0; // no interval is known yet
  std::uint64_t best = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const std::uint64_t most = std::min(hi_ - lo_, most_ahead);
  for (std::uint64_t r = 0; r <= most; ++r) {
    const std::int64_t stop = fast.last + static_cast<std::int64_t>(r) * fast.interval;
    const std::int64_t nearest = (stop - slow.last + slow.interval / 2) / slow.interval;
    const std::int64_t catch_up = slow.last + std::max<std::int64_t>(nearest, 1) * slow.interval;
    const std::int64_t apart = catch_up > stop ? catch_up - stop : stop - catch_up;
    if (apart >= least) continue;
    least = apart;
    best = r;
  }
  return best;
}

} // namespace mailgrad
