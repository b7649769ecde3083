#include <mailgrad/engine/record/recorded_pace.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace mailgrad {

namespace {

[[noreturn]] void refuse_times(const recording& r, const std::string& why) {
  throw recording_error(fmt::format("recording '{}' does not tell how long steps took: {}", r.name, why));
}

/// A gradient, and the steps that it took to make it.
struct timed_push {
  std::optional<instant> begun; ///< none for the first one of a worker
  instant judged{0};
  instant::rep steps = 1;

  /// Of each step.
  instant step() const { return (judged - *begun) / steps; }
};

/// Notes the moments of the first shard.
class first_shard final : public rehearsal_listener {
public:
  explicit first_shard(const recording& r) : r_(r), workers_(r.header.workers) {}

  void judged(std::size_t shard, const order_entry& turn, verdict what, std::uint64_t gap,
              std::uint64_t batches) override {
    if (shard != 0) return;
    worker& w = workers_[turn.worker.value];
    const instant at{turn.arrived};
    require_near(at);
    if (w.answered && at < *w.answered)
      refuse_times(r_, fmt::format("worker {} had its weights after its step {} had come", turn.worker.value,
                                   turn.step.value));
    now_ = w.pushes.empty() && !begun_ ? at : std::max(now_, at);
    begun_ = true;
    if (!w.pushes.empty()) waited_ += *w.answered - w.pushes.back().judged;
    const bool first = w.pushes.empty();
    w.pushes.push_back({first ? std::nullopt : w.answered, at,
                        std::max<instant::rep>(1, static_cast<instant::rep>(batches - w.batches))});
    w.batches = batches;
    if (what == verdict::discard) ++discarded_;
    if (what == verdict::apply) gaps_.count(gap);
    if (what == verdict::merge) merging_.push_back({gap, merges_});
    if (what == verdict::defer) deferred_.push_back({gap, merges_});
  }
  /// In a queue a gradient has aged by a version for each update that others made before it.
  void merged(std::size_t shard, std::uint64_t gradients) override {
    if (shard != 0) return;
    for (; gradients > 0 && !merging_.empty(); --gradients) {
      gaps_.count(merging_.front().gap + merges_ - merging_.front().merges);
      merging_.pop_front();
    }
    ++merges_;
  }
  void round_over(std::size_t shard) override {
    if (shard == 0) merging_ = std::exchange(deferred_, {});
  }
  void answered(std::size_t shard, rank of) override {
    if (shard == 0 && begun_) workers_[of.value].answered = now_;
  }

  recorded_pace pace(version_number updates) const;

private:
  /// So that sums of times are no more than a number can hold, whatever the file says.
  void require_near(instant at) {
    constexpr instant furthest{std::int64_t{1} << 61}, longest{std::int64_t{1} << 52}; // 73 years, 52 days
    if (!begun_) first_ = at;
    if (first_ < -furthest || first_ > furthest || at < first_ - longest || at > first_ + longest)
      refuse_times(r_, "its gradients came at moments that lie too far apart");
  }

  struct worker {
    std::optional<instant> answered;
    std::uint64_t batches = 0;
    std::vector<timed_push> pushes;
  };

  /// A gradient that waits for its update.
  struct merging_gradient {
    std::uint64_t gap = 0;    ///< when it came
    std::uint64_t merges = 0; ///< updates of merged gradients before that
  };

  instant usual_step(std::size_t w) const;
  instant begin() const;
  std::vector<instant> steps_of(std::size_t w, instant begin) const;

  const recording& r_;
  std::vector<worker> workers_;
  instant now_{0}; ///< the last moment known
  instant first_{0};
  bool begun_ = false;
  instant waited_{0};
  std::uint64_t discarded_ = 0;
  std::deque<merging_gradient> merging_;
  std::deque<merging_gradient> deferred_; ///< that wait for the next round
  std::uint64_t merges_ = 0;
  staleness_histogram gaps_;
};

/// The median of those whose begin is known.
instant first_shard::usual_step(std::size_t w) const {
  const std::vector<timed_push>& pushes = workers_[w].pushes;
  if (pushes.size() < 2)
    refuse_times(r_, fmt::format("worker {} made {} exchange{}, and at least 2 are needed", w, pushes.size(),
                                 pushes.size() == 1 ? "" : "s"));
  std::vector<instant> steps;
  for (std::size_t i = 1; i < pushes.size(); ++i) steps.push_back(pushes[i].step());
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::ranges::nth_element(steps, middle);
  return *middle;
}

instant first_shard::begin() const {
  instant latest = instant::max();
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const instant usual = usual_step(w);
    const timed_push& first = workers_[w].pushes.front();
    if (first.steps > (std::int64_t{1} << 61) / std::max<instant::rep>(1, usual.count()))
      refuse_times(r_, fmt::format("worker {} made too many steps before its first exchange", w));
    latest = std::min(latest, first.judged - usual * first.steps);
  }
  return latest;
}

/// The first steps of an exchange have what does not divide.
std::vector<instant> first_shard::steps_of(std::size_t w, instant begin) const {
  std::vector<instant> steps;
  for (const timed_push& p : workers_[w].pushes) {
    const instant all = p.judged - p.begun.value_or(begin);
    for (instant::rep i = 0; i < p.steps; ++i)
      steps.push_back(all / p.steps + (i == 0 ? all % p.steps : instant{0}));
  }
  return steps;
}

recorded_pace first_shard::pace(version_number updates) const {
  const instant from = begin();
  recorded_pace p;
  instant last = from;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    p.steps.push_back(steps_of(w, from));
    last = std::max(last, workers_[w].pushes.back().judged);
  }
  p.lasted = last - from;
  p.waited = waited_;
  p.updates = updates.value;
  p.discarded = discarded_;
  p.gaps = gaps_;
  return p;
}

} // namespace

recorded_pace pace_of(const recording& r, const replay_terms& terms) {
  if (r.killed) refuse_times(r, "it was not completed, so it has no end");
  if (recorded_lives(r).any_change() || r.header.ranks() != r.header.workers)
    refuse_times(r, "workers came or went while it went on");
  require_replay_ends(r, terms);
  first_shard heard(r);
  rehearsal all(r, terms, &heard);
  all.run();
  return heard.pace(all.version(0));
}

} // namespace mailgrad
