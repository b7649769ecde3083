#pragma once

#include <mailgrad/engine/record/recording.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mailgrad {

/// One incarnation of a worker in a recorded run.
struct recorded_life {
  incarnation life{};
  std::size_t first = 0;      ///< its first batch among those of its rank
  std::size_t end = 0;        ///< behind its last one
  std::uint64_t switches = 0; ///< of the policy that were made before it joined
  bool late = false;          ///< it took a seat while the run went on
  bool cut = false; ///< it was lost or left early: a shard may lack its joining or its last gradients
};

/// Who took part in a recorded run: the incarnations of each worker, one after the other. Where nobody was
/// lost, left early or came late, each worker has one.
///
/// Threads  a value like any other.
class recorded_lives {
public:
  explicit recorded_lives(const recording& r);

  std::size_t ranks() const noexcept { return lives_.size(); }
  /// Those of a rank, in their order; none of a seat that stayed empty.
  std::span<const recorded_life> of(std::size_t rank) const { return lives_[rank]; }
  /// Null if that incarnation took no part.
  const recorded_life* find(rank worker, incarnation life) const;
  /// Who of a rank was there when the policy had switched `switches` times and was to switch again: the last
  /// that had joined. Null if nobody had.
  const recorded_life* before_switch(std::size_t rank, std::uint64_t switches) const;
  /// How many batches of a rank had been trained before this switch, of which `switches` were made before.
  /// Who was lost soon after it may have trained one that nobody knew of; it does not count.
  std::uint64_t batches_before(const recorded_switch& s, std::uint64_t switches, std::size_t rank) const;
  /// The last step that any shard had taken before this switch of who was there; 0: none.
  step_number step_before(std::uint64_t switches, std::size_t rank) const {
    return steps_.at(switches)[rank];
  }
  /// Whether anybody was lost, left early, came late or came back.
  bool any_change() const noexcept { return any_change_; }

private:
  void add_those_with_batches(const recording& r);
  void add_those_that_joined(const recording& r);
  void add_those_that_only_left(const recording& r);
  void note_who_was_cut(const recording& r);
  void add_steps_before_switches(const recording& r);
  recorded_life& get(rank worker, incarnation life);

  std::vector<std::vector<recorded_life>> lives_; ///< by rank
  std::vector<std::vector<step_number>> steps_;   ///< before each switch, by rank
  bool any_change_ = false;
};

} // namespace mailgrad
