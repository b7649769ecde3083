#pragma once

#include <mailgrad/optim/policies/policy.hpp>

namespace mailgrad {

/// One update from the mean of each worker's mean of fresh gradients, (1/n) sum_i G_i / B_i, as soon as the
/// harmonic mean of the numbers B_i is S / n or more. A fast worker sends several gradients, and yet its data
/// weigh no more than those of any other: the mean is unbiased where workers have unlike data. Staleness 0.
///
/// Nobody waits. A batch needs a gradient of every worker, so with S <= n it is complete when the slowest has
/// sent one. A worker that leaves is awaited no longer, and what it has sent stays in its batch. One that
/// joins is awaited at once.
/// Source  Tyurin & Richtarik, "Optimal Time Complexities of Parallel Stochastic Optimization Methods Under a
///         Fixed Computation Model", NeurIPS 2023, arXiv:2305.12387 (Malenia SGD).
class malenia_policy final : public policy {
public:
  static constexpr std::string_view policy_name = "malenia";
  explicit malenia_policy(std::uint64_t s) : s_(static_cast<double>(s)) {}
  std::string_view name() const noexcept override { return policy_name; }
  bool shards_agree() const noexcept override { return true; }
  bool always_fresh() const noexcept override { return true; }
  bool makes_batches() const noexcept override { return true; }
  weighing weighs() const noexcept override { return weighing::workers; }
  std::optional<std::uint64_t> most_stale() const noexcept override { return 0; }
  void join(rank worker) override {
    if (workers_.size() <= worker.value) workers_.resize(worker.value + 1);
    workers_[worker.value].present = true;
  }
  void leave(rank worker) override {
    if (worker.value < workers_.size()) workers_[worker.value].present = false;
  }
  decision judge(const gradient_stamp& g) override {
    if (!may_start(g.worker)) return {verdict::discard, "not awaited"};
    if (g.version_read != g.version_now) return {verdict::discard, "late"};
    ++workers_[g.worker.value].sent;
    return {verdict::merge};
  }
  bool batch_complete() const override {
    constexpr double rounding = 1e-12; // of the sum, which must not ask for one gradient more
    double n = 0, inverses = 0;
    bool anybody = false;
    for (const entry& w : workers_) {
      if (w.present && w.sent == 0) return false;
      anybody = anybody || w.present;
      if (w.sent == 0) continue;
      ++n;
      inverses += 1 / static_cast<double>(w.sent);
    }
    return n > 0 && (!anybody || n * n >= s_ * inverses * (1 - rounding));
  }
  void batch_applied() override {
    for (entry& w : workers_) w.sent = 0;
  }
  bool may_start(rank worker) const override {
    return worker.value < workers_.size() && workers_[worker.value].present;
  }
  void keep(archive& a) override {
    const std::size_t joined = workers_.size();
    a.version(1);
    a.field("workers", workers_);
    if (workers_.size() < joined) workers_.resize(joined);
  }

private:
  struct entry {
    bool present = false;
    std::uint64_t sent = 0; ///< gradients in the batch

    void keep(archive& a) {
      a.field("present", present);
      a.field("sent", sent);
    }
  };

  double s_;
  std::vector<entry> workers_; ///< by rank
};

} // namespace mailgrad
