#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/optim/optimizer.hpp>

#include <deque>

namespace mailgrad {

struct local_steps_options {
  std::uint64_t steps = 0;       ///< between two exchanges; 0: each gradient goes to the shards
  optimizer_options optimizer{}; ///< the rule of these steps; its state stays with the worker
  /// The factor with which an exchange pulls the worker's weights to those of the shards, as in EASGD.
  /// Without it, the exchange replaces the worker's weights. With it, an exchange takes place when the
  /// gradient of a step is computed, but before the step is taken.
  std::optional<float> pull{};
};

/// A worker's own weights and its steps on them. At an exchange the shards get the change of the weights in
/// place of a gradient. With SGD of learning rate 1 as their outer optimiser, the shards thus average models.
///
/// The weights lie on the queue given, with the state of the rule. On a GPU each step is queued behind the
/// gradient that it takes, which may still be computed, and what it reads is held until it has run.
/// Source  Stich, "Local SGD converges fast and communicates little", ICLR 2019, arXiv:1805.09767; with an
///         outer Nesterov momentum: Douillard et al., "DiLoCo", 2023, arXiv:2311.08105.
/// Shapes  snapshots of a shard are float32[its range]. No tables with sparse gradients.
/// Errors  device_error: a GPU that fails, or values that the queue does not reach.
class local_steps {
public:
  local_steps(std::shared_ptr<const parameter_layout> layout, const local_steps_options& options,
              std::shared_ptr<device_queue> at = std::make_shared<host_queue>());
  local_steps(local_steps&&) noexcept = default;
  ~local_steps() {
    if (at_) finish_for_good(*at_); // else its state has moved
  }
  /// Takes the weights of one shard as the worker's own, or pulls these to `met` in an elastic exchange.
  void receive(std::uint32_t shard, snapshot values, const snapshot& met = {});
  /// Makes the worker take the next weights of each shard in place of its own, even in an elastic exchange.
  /// All workers thus begin a new policy with the same weights. A held step is then taken from these.
  void start_anew() noexcept {
    for (auto& read : read_) read.reset();
  }
  std::string_view rule() const noexcept { return optimizer_->name(); } ///< the name of the update rule
  /// float32[layout.size()]. They change with the next step, which must be queued behind who reads them.
  snapshot weights() const { return snapshot(own_, written_); }
  const std::shared_ptr<device_queue>& at() const noexcept { return at_; }
  /// Takes one step with the worker's own optimiser, by `g` times `scale`.
  void step(std::shared_ptr<const gradient> g, float scale);
  /// Whether an elastic exchange is due before the next step, whose gradient the caller then holds.
  bool exchanges_first() const noexcept { return options_.pull && taken_ >= options_.steps; }
  void hold(std::shared_ptr<const gradient> g, float scale) {
    held_ = std::move(g);
    held_scale_ = scale;
  }
  bool holds() const noexcept { return held_ != nullptr; }
  /// Takes the held step, if there is one; to be called when all shards have answered.
  void go_on() {
    if (auto due = std::exchange(held_, nullptr)) step(std::move(due), held_scale_);
  }
  std::uint64_t taken() const noexcept { return taken_; } ///< steps since the last exchange
  bool exchange_due() const noexcept { return !options_.pull && taken_ >= options_.steps; }
  /// Returns the weights that shards sent minus the own ones, in place of a gradient. The next round begins.
  std::shared_ptr<const gradient> difference();
  /// Writes or reads the worker's own weights and all that its steps depend on. It is copied; what lies on a
  /// GPU has come when an event has passed that the queue recorded after this call.
  void keep(archive& a);

private:
  struct retired {
    device_event until;
    std::shared_ptr<const void> what;
  };

  std::span<float> own(const shard_range& range) {
    return own_->on<float>(at_->where()).subspan(range.begin, range.size());
  }
  /// Marks the end of what is queued, which reads `read`.
  void queued(std::shared_ptr<const void> read) {
    while (!retired_.empty() && retired_.front().until.passed()) retired_.pop_front();
    written_ = at_->record();
    if (read && !written_.passed()) retired_.push_back({written_, std::move(read)});
  }
  void keep_read(archive& a, std::size_t shard);
  void keep_held(archive& a);

  std::shared_ptr<const parameter_layout> layout_;
  local_steps_options options_;
  std::shared_ptr<device_queue> at_;
  std::unique_ptr<optimizer> optimizer_;
  std::shared_ptr<memory> own_;
  device_event written_;        ///< passes when `own_` is as the last call has left it
  std::deque<retired> retired_; ///< in the order of their events
  std::vector<snapshot> read_;  ///< by shard
  object_pool<gradient> differences_;
  std::shared_ptr<const coverage> covered_; ///< by the last gradient; all gradients of a round cover the same
  std::shared_ptr<const gradient> held_;
  float held_scale_ = 1;
  std::uint64_t taken_ = 0;
  std::uint64_t steps_ = 0; ///< of all rounds; the schedule counts these
};

} // namespace mailgrad
