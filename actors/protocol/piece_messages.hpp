#pragma once

#include <mailgrad/actors/protocol/caf_compat.hpp>
#include <mailgrad/engine/account/trace_track.hpp>
#include <mailgrad/engine/worker/piece_program.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// How a worker computes a gradient on several devices: each has a piece of the model, and an actor that owns
// it.
//
//     worker --compute_step--> every piece;  every piece --step_computed--> worker: the gradient is complete
//     piece --values_computed--> piece that reads them --values_used--> back: credit for another micro-batch
//
// All of them stay inside the process.

namespace mailgrad {

/// The weights of a shard, and who keeps them alive.
struct weight_view {
  const float* values = nullptr;
  std::shared_ptr<const void> owner;
};

/// What the pieces of a worker share of one step; none of them changes it. All of its micro-batches are
/// computed with one version of the weights.
struct step_work {
  std::uint64_t step = 0; ///< the worker's own count of what it computes, from 1
  std::vector<micro_batch> micro_batches;
  std::vector<weight_view> weights; ///< by shard
  bool racing = false;              ///< of the block that all workers of hogwild write to
  std::shared_ptr<gradient> into;
  std::vector<caf::actor> pieces; ///< by place among the worker's devices
};

/// Worker to each of its pieces: compute what is yours. Answered with `step_computed` or `piece_failed`.
struct compute_step {
  std::shared_ptr<const step_work> work;
  std::shared_ptr<trace_track> trace; ///< to record into; comes back with the answer
};

/// Piece to piece: values of a segment that you read. Answered with `values_used`.
struct values_computed {
  std::uint64_t step = 0;
  std::size_t micro_batch = 0;
  std::size_t segment = 0;
  std::shared_ptr<const value_set> values;
};

/// Piece to piece: these are read; there is credit for those of another micro-batch. No answer.
struct values_used {
  std::uint64_t step = 0;
  std::size_t segment = 0;
  std::size_t reader = 0; ///< place of the piece that read them
};

/// Piece to worker: my part of all micro-batches is in the gradient, or here.
struct step_computed {
  std::uint64_t step = 0;
  std::size_t piece = 0; ///< its place among the worker's devices
  piece_sum sum;
  std::int64_t busy = 0; ///< ns in which it computed
  std::shared_ptr<trace_track> trace;
};

/// Piece to worker: a kernel failed, or the model could not be built for the size of a micro-batch.
struct piece_failed {
  std::size_t piece = 0;
  std::string why;
  std::shared_ptr<trace_track> trace{};
};

/// A piece is gone (sent by watching it).
struct piece_lost {
  std::size_t piece = 0;
  std::string why{}; ///< what it said last, if an exception ended it
};

template <class Inspector>
auto inspect(Inspector& f, values_used& x) {
  return fields(f, x, field("step", x.step), field("segment", x.segment), field("reader", x.reader));
}
template <class Inspector>
auto inspect(Inspector& f, piece_lost& x) {
  return fields(f, x, field("piece", x.piece), field("why", x.why));
}

} // namespace mailgrad
