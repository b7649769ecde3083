#pragma once

#include <mailgrad/optim/policies/attendance.hpp>

namespace mailgrad {

/// One update from all who have sent a gradient when a quorum is there and a grace window is over: the window
/// begins when K workers have sent theirs, and ends at once if nobody is left to wait for. Each gradient
/// weighs as many samples as it is of. Those workers wait for the update; who comes later is in the next one,
/// and a worker that is away is waited for by nobody.
///
/// Where fewer than K workers are left, all of them make an update. One that joins is counted at once.
/// Source  Douillard et al., "Decoupled DiLoCo for Resilient Distributed Pre-training", 2026,
///         arXiv:2604.21428. Differs: the window has one length and does not adapt, weights of a worker are
///         samples alone, all of the model is one fragment, and a worker waits for the update that it is in.
class quorum_policy final : public attended_policy {
public:
  static constexpr std::string_view policy_name = "quorum";

  /// `grace` is in nanoseconds.
  quorum_policy(std::uint64_t k, std::uint64_t grace, world_size workers)
      : k_(k), grace_(static_cast<std::int64_t>(grace)), takes_all_(k >= workers.value) {}
  std::string_view name() const noexcept override { return policy_name; }
  bool shards_agree() const noexcept override { return true; }
  bool always_fresh() const noexcept override { return takes_all_; }
  weighing weighs() const noexcept override { return weighing::samples; }
  void leave(rank worker) override {
    workers_.leave(worker);
    open_if_met();
  }
  decision judge(const gradient_stamp& g) override {
    if (!workers_.awaited(g.worker)) return {verdict::discard, "not awaited"};
    workers_.arrive(g.worker);
    last_ = g.arrived;
    open_if_met();
    return {verdict::merge};
  }
  bool batch_complete() const override {
    if (workers_.arrived() == 0) return false;
    return workers_.arrived() >= workers_.expected() || (opened_ && (closed_ || grace_ == 0));
  }
  void batch_applied() override {
    workers_.batch_applied();
    opened_.reset();
    closed_ = false;
  }
  std::optional<std::int64_t> closes_at() const override {
    if (!opened_ || batch_complete()) return std::nullopt;
    return *opened_ + grace_;
  }
  void close() override { closed_ = opened_.has_value(); }
  /// A window that was open when this was kept ends at once when the run goes on, since its moment is of
  /// another clock.
  void keep(archive& a) override {
    a.version(1);
    a.field("workers", workers_);
    bool open = opened_.has_value();
    a.field("open", open);
    a.field("closed", closed_);
    if (!a.reads()) return;
    opened_.reset();
    if (open) opened_ = -grace_;
  }

private:
  void open_if_met() {
    if (opened_ || workers_.arrived() == 0) return;
    if (workers_.arrived() >= std::min<std::size_t>(k_, workers_.expected())) opened_ = last_;
  }

  std::uint64_t k_;
  std::int64_t grace_;
  bool takes_all_;                     ///< K = N: nobody computes while an update is made
  std::int64_t last_ = 0;              ///< when the last gradient of the batch came
  std::optional<std::int64_t> opened_; ///< when the quorum was there
  bool closed_ = false;                ///< the window is over
};

} // namespace mailgrad
