#pragma once

#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/account/trace_track.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// What workers have told of while they trained: the last losses, how far they had come, and how long they
/// had waited. It takes the place of a report that will not come, because its worker was lost.
class told_losses {
public:
  explicit told_losses(std::uint32_t workers) : all_(workers) {}

  /// Another incarnation of the worker begins, and counts anew.
  void begin(rank worker);

  /// So many steps of a worker since the last notice, with the sum of the losses of their samples. Each of
  /// them counts with the mean, since only the sum is known. Of a worker that there is not, nothing is taken.
  void take(rank worker, std::uint64_t steps, std::uint64_t samples, double loss_sum);
  /// What has come to the sums of a worker since its last notice.
  void add(rank worker, const worker_sums& more);
  struct amount {
    std::uint64_t steps = 0;
    std::uint64_t samples = 0;
  };
  /// Of the present or the last incarnation. It may have done a little more than it had told.
  amount done_by(rank worker) const { return all_[worker.value].done; }
  /// Puts what was told of a lost worker into its report, which has the sums of earlier incarnations. Losses
  /// stay as they are if none were told. `copy` is the report as the worker last copied it, and may be newer.
  void give(worker_report& known, const worker_report& copy) const;

private:
  struct told {
    loss_tail tail;
    float last = 0;
    amount done{};
    worker_sums sums{};
  };
  std::vector<told> all_; ///< by rank
};

/// Who tells of a timeline in another process: one incarnation of a worker, or a shard, which has one life.
struct timeline_teller {
  std::optional<shard_index> shard{}; ///< none: a worker
  rank worker{};
  incarnation life{};

  static timeline_teller of(rank worker, incarnation life) { return {{}, worker, life}; }
  static timeline_teller of(shard_index shard) { return {shard, {}, {}}; }

  auto operator<=>(const timeline_teller&) const = default;
};

/// A timeline of another process, by the clock of this one.
struct told_timeline {
  timeline_teller teller;
  std::shared_ptr<const trace_track> track;
  clock_offset clock{}; ///< of its last piece; the uncertainty is the largest of all
  bool whole = false;   ///< all was told; else the teller was lost
};

/// What workers and shards of other processes tell of their timelines. A lost one has told what it did until
/// a moment before; nothing else is known of it.
///
/// Guarantees  the events of a rank or a shard take at most the room of one timeline, however often it comes
///             back. What comes later is only counted. No event ends after its piece has come.
/// Threads     one caller at a time.
class told_timelines {
public:
  /// Of a run that began at `started`, with room for `events` of each rank and shard. 0: nothing is kept.
  told_timelines(instant started, std::size_t events) : started_(started), room_(events) {}

  /// A piece has come `now`. What makes no sense is ignored.
  void take(const timeline_teller& by, const trace_piece& x, instant now);
  /// This one has told all.
  void complete(const timeline_teller& by);

  /// In the order of ranks and incarnations, and then of shards.
  std::vector<told_timeline> placed() const;

private:
  struct piece {
    instant sent;
    instant came;
    std::vector<told_event> events;
    std::vector<std::string> words;
  };
  struct told {
    std::string device;
    clock_bounds clock{};
    std::vector<piece> pieces{};
    std::uint64_t left_out = 0; ///< by the teller
    std::uint64_t dropped = 0;  ///< here
    bool whole = false;
  };
  told_timeline placed(const timeline_teller& who, const told& what) const;

  instant started_;
  std::size_t room_;
  std::map<timeline_teller, told> all_;
  std::map<timeline_teller, std::size_t> kept_; ///< events, of all incarnations together
};

} // namespace mailgrad
