#pragma once

#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/account/checkpoint_account.hpp>
#include <mailgrad/engine/account/told_timelines.hpp>
#include <mailgrad/engine/account/training_report.hpp>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {

/// How a run ended, from the reports of its actors. Or where it stands: then the copies of different actors
/// are of different moments, a shard that has told nothing yet is missing, and no shard tells its weights.
struct run_outcome {
  enum class ending : std::uint8_t {
    completed, ///< all batches are trained
    stopped,   ///< the program called for it
    diverged,  ///< a loss was no finite number, or nonsense (divergence.hpp)
    failed,    ///< a device failed, or no worker was left
    running,   ///< not yet: these are copies of the actors' books so far
  };
  ending how = ending::completed;
  std::string why;     ///< one line; empty if completed and nothing is left untrained
  bool enough = false; ///< stopped as the options of the run ask for
  /// By rank, over all incarnations. Of one that was lost only what the shards have heard is known: its
  /// gradients, and the batches behind those that they judged. Its sums are those that it had told.
  std::vector<worker_report> workers;
  std::vector<bool> lost;                    ///< by rank: an incarnation died without a report
  std::vector<std::uint64_t> lost_batches{}; ///< by rank: sent to it, and not trained when it was lost
  std::vector<bool> untold{};       ///< by rank, while the run goes on: nothing is known of the worker yet
  std::vector<late_figures> late{}; ///< while the run goes on, the shards whose books are older or missing
  std::vector<shard_report> shards; ///< by shard, a lost one without workers; empty in hogwild
  std::vector<policy_switch> switches;
  std::shared_ptr<const trace_track> feeder_trace{}; ///< if the feeder has a timeline
  bool feeder_lost = false;
  double nonsense_above = std::numeric_limits<double>::infinity(); ///< for a loss, as divergence.hpp says
  std::uint64_t untrained = 0; ///< batches that a worker left, when no other was there to train them
  checkpoint_account checkpoints{};
  std::vector<checkpoint_times> checkpoint_timeline{}; ///< if the run has a timeline
  std::vector<told_timeline> told{};                   ///< of workers and shards of other processes, likewise
};

/// The books of a run whose actors have told nothing yet.
run_outcome nothing_told(std::uint32_t workers, std::uint32_t shards = 0);

} // namespace mailgrad
