#pragma once

#include <mailgrad/engine/account/gradient_ledger.hpp>
#include <mailgrad/engine/account/running_stat.hpp>
#include <mailgrad/engine/account/staleness_histogram.hpp>
#include <mailgrad/engine/account/time_split.hpp>
#include <mailgrad/engine/account/trace_track.hpp>
#include <mailgrad/optim/policies/policy.hpp>
#include <mailgrad/tensor/block.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {

/// What a piece of a worker that spans several devices did over a run.
struct piece_report {
  std::string device;
  std::int64_t busy = 0;                      ///< ns in which it computed
  std::shared_ptr<const trace_track> trace{}; ///< if that was wanted; lost with a piece that was
};

/// What a device actor knows of its own part of a run.
struct worker_report {
  rank worker;
  std::uint64_t steps = 0;      ///< mini-batches
  std::uint64_t produced = 0;   ///< gradients, or with local steps differences
  std::uint64_t applied = 0;    ///< by the worker itself (hogwild)
  std::uint64_t not_finite = 0; ///< dropped by the worker, because their loss was no number
  std::uint64_t samples = 0;
  std::uint32_t loss_bits = 0;                ///< float: last finite loss; NaN if there was none
  std::int64_t barrier_wait = 0;              ///< ns, over all steps
  std::int64_t bound_wait = 0;                ///< ns, over all steps
  std::int64_t feeder_wait = 0;               ///< ns, over all steps
  staleness_histogram gaps;                   ///< of what the worker applied itself
  time_split times;                           ///< likewise
  std::shared_ptr<const trace_track> trace{}; ///< what it did, if that was wanted
  running_stat gradient_cosine{};             ///< of what was sampled
  std::vector<piece_report> pieces{};         ///< of a worker that spans several devices
};

/// What a shard took from one worker.
struct worker_account {
  std::uint64_t last_step = 0; ///< the last step taken, so that none counts twice
  gradient_ledger ledger;      ///< `produced` counts what arrived
  std::uint64_t unjudged = 0;  ///< of those lost: they arrived, and their turn in an order never came
  staleness_histogram gaps;    ///< of what was applied or merged
  staleness_histogram discarded_gaps;
  time_split times;        ///< of what arrived
  running_stat weight_gap; ///< of what was sampled
};

/// What a shard has at the end, and what it took from whom.
struct shard_report {
  std::uint32_t shard = 0;
  std::uint64_t version = 0;
  std::vector<worker_account> workers; ///< by rank
  std::shared_ptr<const block> values;
  std::shared_ptr<const trace_track> trace{}; ///< what it did, if that was wanted
};

/// What a feeder leaves behind.
struct feeder_report {
  std::shared_ptr<const trace_track> trace; ///< what it did
};

} // namespace mailgrad
