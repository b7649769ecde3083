#pragma once

#include <mailgrad/engine/account/gradient_ledger.hpp>
#include <mailgrad/engine/account/staleness_histogram.hpp>
#include <mailgrad/engine/account/trace_track.hpp>
#include <mailgrad/optim/identity.hpp>
#include <mailgrad/tensor/memory.hpp>

#include <array>
#include <bit>

namespace mailgrad {

/// The losses of the last steps of a worker.
class loss_tail {
public:
  static constexpr std::size_t steps = 32;
  /// Adds the mean loss of one step; that of the oldest step goes when there are more than `steps`.
  void add(float loss, std::uint64_t samples) noexcept {
    entries_[next_] = {loss, samples};
    next_ = (next_ + 1) % steps;
    count_ = std::min(count_ + 1, steps);
  }

  std::uint64_t samples() const noexcept {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < count_; ++i) all += entries_[i].samples;
    return all;
  }
  /// The sum of the losses of all these samples.
  double sum() const noexcept {
    double all = 0;
    for (std::size_t i = 0; i < count_; ++i)
      all += static_cast<double>(entries_[i].loss) * static_cast<double>(entries_[i].samples);
    return all;
  }

  /// Writes or reads the steps, the oldest first.
  void keep(archive& a) {
    std::vector<std::pair<float, std::uint64_t>> all;
    for (std::size_t i = 0; i < count_; ++i) {
      const entry& e = entries_[(next_ + steps - count_ + i) % steps];
      all.emplace_back(e.loss, e.samples);
    }
    a.field("steps", all);
    if (!a.reads()) return;
    *this = {};
    for (const auto& [loss, samples] : all) add(loss, samples);
  }

private:
  struct entry {
    float loss = 0;
    std::uint64_t samples = 0;
  };
  std::array<entry, steps> entries_{};
  std::size_t next_ = 0;
  std::size_t count_ = 0;
};

/// How far the weights of a shard had moved when a sampled gradient was applied to them.
struct gap_sample {
  incarnation_number incarnation; ///< of the worker, as the next
  step_number step;
  std::uint64_t lag = 0; ///< versions
  double gap = 0;        ///< weights, as a root mean square

  void keep(archive& a) { a.fields({"life", "step", "lag", "gap"}, incarnation, step, lag, gap); }
};

/// Where a sampled gradient pointed, beside a fresh one of the same batch.
struct cosine_sample {
  incarnation_number incarnation;
  step_number step;
  double cosine = 0;

  void keep(archive& a) { a.fields({"life", "step", "cosine"}, incarnation, step, cosine); }
};

/// A draw of the sampled gradients of one worker: those whose numbers have the least of a mixed value. So a
/// shard and the worker, each of which knows half of a pair, keep the same ones, and so does a replay.
/// Threads one caller at a time.
template <class Sample>
class kept_samples {
public:
  static constexpr std::size_t most = 256;

  void add(const Sample& x) {
    all_.push_back(x);
    std::ranges::push_heap(all_, {}, value_of);
    if (all_.size() <= most) return;
    std::ranges::pop_heap(all_, {}, value_of);
    all_.pop_back();
  }

  std::span<const Sample> all() const noexcept { return all_; } ///< in no particular order

  void keep(archive& a) { a.field("all", all_); }

private:
  /// The last step of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
  static std::uint64_t value_of(const Sample& x) noexcept {
    std::uint64_t z = x.step.value + (std::uint64_t{x.incarnation.value} << 40) + 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  std::vector<Sample> all_; ///< a heap, the greatest value first
};

/// The report of one stage (one device) of a worker that spans several devices.
struct stage_report {
  std::string device;
  std::int64_t busy = 0;                      ///< ns that it computed
  std::shared_ptr<const trace_track> trace{}; ///< null if not wanted, or if the stage was lost
  /// Without the timeline, which tells of one process.
  void keep(archive& a) {
    a.field("device", device);
    a.field("busy", busy);
  }
};

/// Sums that a worker alone knows, so that it tells them while it trains. It may be lost before its report.
struct worker_sums {
  std::int64_t barrier_wait = 0; ///< ns, over all steps
  std::int64_t bound_wait = 0;   ///< ns, over all steps
  std::int64_t feeder_wait = 0;  ///< ns, over all steps
  std::uint64_t local_bytes = 0; ///< of batches that it cut itself, which nobody had to send

  std::int64_t waited() const noexcept { return barrier_wait + bound_wait + feeder_wait; }
  void add(const worker_sums& more) {
    barrier_wait += more.barrier_wait;
    bound_wait += more.bound_wait;
    feeder_wait += more.feeder_wait;
    local_bytes += more.local_bytes;
  }
  /// Each sum by itself, to at least that of `other`.
  void raise_to(const worker_sums& other) {
    barrier_wait = std::max(barrier_wait, other.barrier_wait);
    bound_wait = std::max(bound_wait, other.bound_wait);
    feeder_wait = std::max(feeder_wait, other.feeder_wait);
    local_bytes = std::max(local_bytes, other.local_bytes);
  }
  worker_sums since(const worker_sums& before) const {
    return {barrier_wait - before.barrier_wait, bound_wait - before.bound_wait,
            feeder_wait - before.feeder_wait, local_bytes - before.local_bytes};
  }
};

/// The report of a worker about its own part of a run.
struct worker_report : worker_sums {
  rank worker;
  std::uint64_t steps = 0;      ///< mini-batches
  std::uint64_t produced = 0;   ///< gradients, or with local steps differences
  std::uint64_t applied = 0;    ///< by the worker itself (hogwild)
  std::uint64_t not_finite = 0; ///< dropped by the worker, because their loss was no number
  std::uint64_t samples = 0;
  std::uint32_t loss_bits = 0;                ///< float: last finite loss; NaN if there was none
  loss_tail last_losses;                      ///< the finite ones of its last steps
  staleness_histogram gaps;                   ///< of gradients that the worker applied itself
  time_split times;                           ///< of the same gradients
  std::shared_ptr<const trace_track> trace{}; ///< null if not wanted
  /// Batches that were copied to its device ahead; null if not wanted, or if it copies none.
  std::shared_ptr<const trace_track> copies{};
  running_stat gradient_cosine{};        ///< of the sampled gradients
  kept_samples<cosine_sample> cosines{}; ///< some of them
  std::vector<stage_report> stages{};    ///< of a worker that spans several devices
  std::uint64_t local_batches = 0;       ///< mini-batches that it cut from samples of its own

  void note_loss(float loss, std::size_t of_samples) {
    loss_bits = std::bit_cast<std::uint32_t>(loss);
    last_losses.add(loss, of_samples);
  }

  /// Without timelines, which tell of one process, and without stages, which begin anew if a run is resumed.
  void keep(archive& a) {
    a.version(3);
    a.fields({"worker", "steps", "produced", "applied", "not_finite", "samples"}, worker, steps, produced,
             applied, not_finite, samples);
    a.fields({"loss_bits", "last_losses", "barrier_wait", "bound_wait", "feeder_wait", "gaps"}, loss_bits,
             last_losses, barrier_wait, bound_wait, feeder_wait, gaps);
    a.fields({"times", "gradient_cosine", "cosines", "own_batches", "own_bytes"}, times, gradient_cosine,
             cosines, local_batches, local_bytes);
  }
};

/// A shard's account of the gradients of one worker.
struct worker_account {
  step_number last_step;      ///< the last step taken, so that none counts twice
  gradient_ledger ledger;     ///< `produced` counts what arrived
  std::uint64_t unjudged = 0; ///< lost gradients that arrived, but whose turn in the order never came
  staleness_histogram gaps;   ///< of gradients applied or merged
  staleness_histogram discarded_gaps;
  time_split times;                      ///< of gradients that arrived
  running_stat weight_gap;               ///< of the sampled gradients
  kept_samples<gap_sample> sampled_gaps; ///< some of them

  void keep(archive& a) {
    a.version(2);
    a.fields({"last_step", "ledger", "unjudged", "gaps"}, last_step, ledger, unjudged, gaps);
    a.fields({"discarded_gaps", "times", "weight_gap", "sampled_gaps"}, discarded_gaps, times, weight_gap,
             sampled_gaps);
  }
};

/// The final state of a shard, and its account of each worker.
struct shard_report {
  shard_index shard;
  version_number version;
  std::vector<worker_account> workers; ///< by rank
  snapshot values;
  std::shared_ptr<const trace_track> trace{}; ///< null if not wanted
};

/// The report of a feeder.
struct feeder_report {
  std::shared_ptr<const trace_track> trace;
};

} // namespace mailgrad
