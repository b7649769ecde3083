#pragma once

#include <mailgrad/actors/protocol/wire.hpp>
#include <mailgrad/engine/worker/stage_program.hpp>
#include <mailgrad/engine/worker/step_runner.hpp>

// How a worker computes a gradient on several devices, each with a stage of the model that a stage actor
// owns. None of these messages leaves the process.
//
//     worker --compute_step--> every stage;  every stage --step_computed--> worker: the gradient is complete
//     stage --values_computed--> stage that reads them --values_used--> back: credit for another micro-batch

namespace mailgrad {

/// What the stages of a worker share in one step; no stage changes it. All micro-batches are computed with
/// one version of the weights.
struct step_work {
  std::uint64_t step = 0; ///< the worker's own count of its computations, from 1
  std::vector<micro_batch> micro_batches;
  std::vector<weight_view> weights; ///< by shard
  bool racing = false;              ///< the weights are hogwild's block, which all workers write to
  std::shared_ptr<gradient> into;
  std::vector<caf::actor> stages; ///< by place among the worker's devices
};

/// Worker to each of its stages. Answered with `step_computed` or `stage_failed`.
struct compute_step {
  std::shared_ptr<const step_work> work;
  std::shared_ptr<trace_track> trace; ///< the stage records into it and returns it with the answer
};

/// Stage to a stage that reads them: the values of a segment. A queue of the same GPU may still compute them,
/// and the reader's queue waits for their event; any other reader is told when they lie on the host.
struct values_computed {
  std::uint64_t step = 0;
  std::size_t micro_batch = 0;
  std::size_t segment = 0;
  std::shared_ptr<const value_set> values;
};

/// The answer: the values have been read, or what reads them is queued.
struct values_used {
  std::uint64_t step = 0;
  std::size_t segment = 0;
  std::size_t reader = 0; ///< place of the stage that has read them
};

/// The stage's part of all micro-batches is in the gradient, or in `sum`.
struct step_computed {
  std::uint64_t step = 0;
  std::size_t stage = 0; ///< its place among the worker's devices
  stage_sum sum;
  std::int64_t busy = 0; ///< ns that the stage computed
  std::shared_ptr<trace_track> trace;
};

/// A kernel failed, or the model cannot be built for the size of a micro-batch.
struct stage_failed {
  std::size_t stage = 0;
  std::string why;
  std::shared_ptr<trace_track> trace{};
  std::optional<world_errc> by_device{}; ///< how its device has failed; empty: that is not why
};

/// To the worker, from the watch on a stage.
struct stage_lost {
  std::size_t stage = 0;
  std::string why{}; ///< what the exception said that ended the actor; empty if none did
};

MAILGRAD_FIELDS(values_used, step, segment, reader)
MAILGRAD_FIELDS(stage_lost, stage, why)

} // namespace mailgrad
