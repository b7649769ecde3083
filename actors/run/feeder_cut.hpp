#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/data/dealer.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>

#include <cstdint>

namespace mailgrad {

/// A field of the feeder's part in a checkpoint, by rank: the samples that the worker had trained at its last
/// marker. Who dies behind it has trained more, which belongs to no part.
inline constexpr const char* samples_at_markers = "samples at marks";

/// The feeder's book of what it dealt to whom. Two things are read from it: the feeder's part in a
/// checkpoint, and what must be dealt again because its worker is lost or has left.
///
/// A worker asks one batch ahead, so some of those that it was dealt before its marker in a checkpoint were
/// not trained. These, and all that it was dealt after its marker, are to be dealt again when the run is
/// resumed. What a lost worker had not trained is dealt again while the run goes on, and no checkpoint is
/// whole before it is known how much that is.
///
/// Threads  those of the feeder that owns it.
class feeder_cut {
public:
  struct options {
    std::uint32_t workers = 1; ///< with which the run begins
    std::uint32_t slots = 1;   ///< with those that may join later
    std::size_t under_way = 2; ///< the most batches that a worker has not trained, or whose step no shard has
    std::vector<std::uint64_t> trained{}; ///< of the workers that go on from a checkpoint; empty: it begins
  };
  explicit feeder_cut(options o);

  /// What the feeder knows of the incarnation that asks for a batch.
  enum class asker : std::uint8_t {
    known,
    newcomer, ///< it asks for the first time, and an earlier one has left, or the slot was empty
    lost,     ///< the run goes on without it
    stranger, ///< it has left, a later one has come, or there is no such rank
  };
  asker hear(rank worker, incarnation_number incarnation);

  /// `own`: the worker has the samples itself, and got their numbers alone.
  void deal(rank worker, std::uint64_t number, bool own);
  void mark(const worker_marked& x);
  /// The coordinator wants a part although no worker is left.
  void begin(std::uint64_t number, const caf::actor& collector);
  /// No marker of this worker will come. False: of this incarnation none would have come.
  bool leave(rank worker, incarnation_number incarnation);
  /// No marker of this worker will come, and nobody knows yet which of its batches are trained. Returns false
  /// where leave() does.
  bool lose(rank worker, incarnation_number incarnation);
  /// What became of the batches of this incarnation, if it is lost; of another one it knows nothing. Asked
  /// for before untrained().
  share_ended account_of(const deal_again& x) const;
  /// Returns the batches that this incarnation was dealt and has not trained. Returned once.
  std::vector<std::uint64_t> untrained(const deal_again& x);
  /// Whether it is not known yet what some lost worker had trained.
  bool has_lost_shares() const noexcept { return !lost_.empty(); }
  /// The part, when no marker is missing. Returned once.
  std::optional<checkpoint_part> finished(const dealer& of, std::uint64_t switches);
  const caf::actor& collector() const noexcept { return collector_; }

private:
  /// What one incarnation was dealt.
  struct share {
    std::uint64_t dealt = 0;           ///< since it joined or was resumed
    bool own = false;                  ///< it cuts its batches from samples of its own
    std::vector<std::uint64_t> last{}; ///< numbers of the batches dealt last, at most `under_way`
  };
  struct of_worker {
    incarnation_number incarnation{};
    share now{};
    std::uint64_t before = 0;          ///< trained before this incarnation joined
    std::optional<std::uint64_t> mark; ///< trained at the marker by all its incarnations, if that has come
    std::uint64_t samples = 0;         ///< in these
    std::vector<std::uint64_t> again{};
    bool gone = false; ///< or nobody has come to the slot yet
    bool lost = false; ///< it is gone, and did not say so
    bool empty = false;
  };
  struct lost_share {
    rank worker;
    incarnation_number incarnation;
    share what;
  };

  static void begin_incarnation(of_worker& w, incarnation_number incarnation);
  static std::ptrdiff_t untrained_of(const share& s, std::uint64_t trained);
  std::vector<lost_share>::const_iterator find_lost(rank worker, incarnation_number incarnation) const;
  std::vector<std::uint64_t> take_untrained(of_worker& w, share& of, std::uint64_t trained);

  std::size_t under_way_;
  std::vector<of_worker> workers_; ///< by rank
  std::vector<lost_share> lost_;
  std::uint64_t number_ = 0; ///< of the checkpoint under way; 0: none is
  std::uint64_t last_ = 0;   ///< that was finished
  caf::actor collector_;
};

} // namespace mailgrad
