#pragma once

#include <mailgrad/engine/shard/gradient_order.hpp>
#include <mailgrad/engine/shard/gradient_queue.hpp>
#include <mailgrad/engine/shard/hogwild_handover.hpp>
#include <mailgrad/engine/shard/policy_machine.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/shard/update_maker.hpp>
#include <mailgrad/engine/shard/worker_slots.hpp>
#include <mailgrad/files/archive.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// What a checkpoint keeps of a shard, by reference. Its core owns it all.
struct shard_state {
  run_id run;
  shard& weights;
  policy_machine& machine;
  worker_slots& workers;
  update_maker& updates;
  gradient_order& order;
  hogwild_handover& lease; ///< under hogwild the weights are in a block, and the shard fetches them
};

/// A shard's part of a checkpoint, without fields if memory was lacking to keep them.
struct kept_shard {
  std::uint64_t number = 0;
  std::shared_ptr<const saved_fields> fields;
};

/// A shard's part in a checkpoint. Each worker sends a marker: the gradients that it pushed before belong to
/// the checkpoint, later ones do not. The state is kept once, before a gradient is taken that does not
/// belong. Gradients that belong and arrive afterwards are kept beside it.
///
///     idle --first marker--> marking --all markers-----------------------------------------> finished = idle
///                               \--a gradient that does not belong--> kept --all markers--/
///
/// A shard that follows the first one keeps its state at the entry at which that one did. Under hogwild no
/// gradient comes, and workers that have sent theirs stand still, so the state is kept at the last marker.
class shard_cut {
public:
  explicit shard_cut(const shard_state& of);
  /// The number of the last checkpoint for which the state was kept; 0: none.
  std::uint64_t last() const noexcept { return last_; }
  /// A checkpoint of this number is taken. False: its part was given before.
  bool begin(std::uint64_t number);
  /// What this worker pushed up to `step` belongs to it. False: likewise, or the run has no such rank.
  bool mark(std::uint64_t number, rank worker, step_number step);
  /// This gradient is about to be admitted: the state is kept first if it does not belong.
  void before(const gradient_id& id);
  /// This worker leaves: the state is kept first if its marker has come.
  void before_leaving(rank worker);
  /// This gradient has been admitted: it is kept beside the state if it belongs.
  void add(const push_gradient& x);
  /// The first shard has kept its state at this entry.
  void follow(std::uint64_t number);
  /// The part, as soon as the markers of all workers that have not left have come. Returned once. It has no
  /// fields if memory was lacking to keep them, and failure() says so.
  std::optional<kept_shard> finished();
  const std::string& failure() const noexcept { return failure_; }
  /// Ends the checkpoint under way, to which no part will come. Returns its number, if there was one.
  std::optional<std::uint64_t> give_up();

private:
  bool belongs(const gradient_id& id) const;
  bool all_marked() const;
  void keep_now();
  template <class Work>
  void or_note(const Work& work);

  shard_state of_;
  std::uint64_t last_ = 0;
  std::uint64_t number_ = 0;                        ///< of the checkpoint under way; 0: none is
  std::vector<std::optional<step_number>> markers_; ///< by rank
  std::shared_ptr<saved_fields> kept_;              ///< null: not yet
  std::vector<waiting_gradient> beside_;
  std::string failure_; ///< why there will be no part; empty: there will be one
};

/// Reads what a checkpoint kept of a shard. Returns the gradients that were kept beside its state, which are
/// to be taken before any other. With another number of workers, `same_workers` is false: only the weights
/// and the states of optimiser and cure are read.
/// Errors  archive_error.
std::vector<push_gradient> restore_shard(archive& a, const shard_state& to, bool same_workers);

} // namespace mailgrad
