#pragma once

#include <mailgrad/actors/protocol/wire.hpp>

#include <memory>
#include <vector>

// How the feeder deals batches to the devices.

namespace mailgrad {

struct batch;

/// Device to feeder, one step before the batch is needed. Answered with `dealt_batch`, with `dealt_samples`
/// if the device has the samples itself, or with `data_exhausted`.
struct next_batch {
  rank worker;
  incarnation_number incarnation{};
  bool has_samples = false; ///< those of the run, bit for bit
};

struct dealt_batch {
  std::shared_ptr<const batch> values;
};

/// The device cuts the batch of these samples, in this order, from samples of its own.
struct dealt_samples {
  std::uint64_t number = 0; ///< of the batch, in the order of dealing, counted over all epochs
  std::uint64_t epoch = 0;
  std::vector<std::uint32_t> samples; ///< by their numbers in the training set
};

/// There is no further batch for this worker.
struct data_exhausted {};

/// Feeder of a replay to device: no batch comes before the next switch of policy, and `step` is the last that
/// a shard had of the worker by then. The device pushes what it keeps, of local steps, and ends with that
/// step. So nobody waits for it who was not paused when it came to the switch.
struct switch_ahead {
  step_number step;
};

/// Coordinator to feeder: answer every further `next_batch` with `data_exhausted`.
struct stop_dealing {};

/// Coordinator to feeder: this incarnation is lost, and `deal_again` will say how many of its batches are
/// trained. Until then no worker is told that the data are exhausted.
struct share_lost {
  rank worker;
  incarnation_number incarnation{};
};

/// Device to feeder, before it leaves of its own will; coordinator to feeder, when the shards have told what
/// they took of a lost worker. Batches beyond the first `trained` are dealt again. The coordinator is
/// answered with `share_ended`, a device not at all.
struct deal_again {
  rank worker;
  incarnation_number incarnation{};
  std::uint64_t trained = 0; ///< since it joined or was resumed
};

/// What became of the batches that a lost incarnation was dealt.
struct share_ended {
  rank worker;
  incarnation_number incarnation{};
  std::uint64_t own = 0;  ///< trained, and cut from samples of its own
  std::uint64_t lost = 0; ///< sent to it, and not trained
};

/// Coordinator to feeder, when no worker is left. Answered with `undealt_counted`.
struct count_undealt {};
struct undealt_counted {
  std::uint64_t batches = 0; ///< still to be dealt
};

/// Coordinator to feeder, at the end of a run with a timeline. Answered with `feeder_report`.
struct report_feeder {};

MAILGRAD_FIELDS(next_batch, worker, incarnation, has_samples)
MAILGRAD_FIELDS(dealt_samples, number, epoch, samples)
MAILGRAD_FIELDS(switch_ahead, step)
MAILGRAD_FIELDS(share_lost, worker, incarnation)
MAILGRAD_FIELDS(deal_again, worker, incarnation, trained)
MAILGRAD_FIELDS(share_ended, worker, incarnation, own, lost)
MAILGRAD_FIELDS(undealt_counted, batches)

} // namespace mailgrad
