#pragma once

#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/account/run_trace.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/cures/cure.hpp>

namespace mailgrad {

/// What workers have told of while they trained, in place of the report of one that is lost.
class reported_losses {
public:
  explicit reported_losses(std::uint32_t workers) : all_(workers) {}
  void begin(rank worker) {
    all_[worker.value].done = {};
    all_[worker.value].sums = {};
  }
  /// So many steps of a worker since the last notice, of which each counts with the mean loss.
  void take(rank worker, std::uint64_t steps, std::uint64_t samples, double loss_sum);
  /// What has come to the sums of a worker since its last notice.
  void add(rank worker, const worker_sums& more) {
    if (worker.value < all_.size()) all_[worker.value].sums.add(more);
  }
  struct amount {
    std::uint64_t steps = 0;
    std::uint64_t samples = 0;
  };
  /// Of the present or the last incarnation. It may have done a little more than it had told.
  amount done_by(rank worker) const { return all_[worker.value].done; }
  /// Puts what was told of a lost worker into its report, which has the sums of earlier incarnations. `copy`
  /// is the report as the worker last copied it.
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

/// Who tells of a timeline in another process: one incarnation of a worker, or a shard, which has one.
struct timeline_teller {
  std::optional<shard_index> shard{}; ///< none: a worker
  rank worker{};
  incarnation_number incarnation{};

  static timeline_teller of(rank worker, incarnation_number incarnation) { return {{}, worker, incarnation}; }
  static timeline_teller of(shard_index shard) { return {shard, {}, {}}; }

  auto operator<=>(const timeline_teller&) const = default;
};

/// A timeline of another process, by the clock of this one.
struct reported_timeline {
  timeline_teller teller;
  std::shared_ptr<const trace_track> track;
  clock_offset clock{}; ///< of its last piece; the uncertainty is the largest of all
  bool whole = false;   ///< all was told; else the teller was lost
};

/// What workers and shards of other processes tell of their timelines, lost ones until a moment before.
/// Guarantees  a rank or a shard takes at most the room of one timeline. No event ends after its piece came.
class reported_timelines {
public:
  /// Of a run that began at `started`, with room for `events` of each rank and shard. 0: nothing is kept.
  reported_timelines(instant started, std::size_t events) : started_(started), room_(events) {}
  /// A piece has come `now`. What makes no sense is ignored.
  void take(const timeline_teller& by, const trace_piece& x, instant now);
  void complete(const timeline_teller& by) {
    if (const auto found = all_.find(by); found != all_.end()) found->second.whole = true;
  }
  /// In the order of ranks and incarnations, and then of shards.
  std::vector<reported_timeline> placed() const;

private:
  struct piece {
    instant sent;
    instant came;
    std::vector<reported_event> events;
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
  reported_timeline placed(const timeline_teller& who, const told& what) const;

  instant started_;
  std::size_t room_;
  std::map<timeline_teller, told> all_;
  std::map<timeline_teller, std::size_t> kept_; ///< events, of all incarnations together
};

/// How a run ended, from the reports of its actors. Or where it stands: then the copies of different actors
/// are of different moments, a shard that has told nothing yet is missing, and no shard tells its weights.
struct run_outcome {
  enum class ending : std::uint8_t {
    completed, ///< all batches are trained
    stopped,   ///< the program called for it
    diverged,  ///< a loss was no finite number, or nonsense (early_stop.hpp)
    failed,    ///< a device failed, or no worker was left
    running,   ///< not yet: these are copies of the actors' books so far
  };
  ending how = ending::completed;
  std::string why;     ///< one line; empty if completed and nothing is left untrained
  bool enough = false; ///< stopped as the options of the run ask for
  /// By rank, over all incarnations. Of a lost one only what it had told and shards have heard is known.
  std::vector<worker_report> workers;
  std::vector<bool> lost;                    ///< by rank: an incarnation died without a report
  std::vector<std::uint64_t> lost_batches{}; ///< by rank: sent to it, and not trained when it was lost
  std::vector<bool> unreported{};   ///< by rank, while the run goes on: nothing is known of the worker yet
  std::vector<late_figures> late{}; ///< while the run goes on, the shards whose books are older or missing
  std::vector<shard_report> shards; ///< by shard, a lost one without workers; empty in hogwild
  std::vector<policy_switch> switches;
  std::shared_ptr<const trace_track> feeder_trace{}; ///< if the feeder has a timeline
  bool feeder_lost = false;
  double nonsense_above = std::numeric_limits<double>::infinity(); ///< for a loss, as early_stop.hpp says
  std::uint64_t untrained = 0; ///< batches that a worker left, when no other was there to train them
  checkpoint_account checkpoints{};
  std::vector<checkpoint_times> checkpoint_timeline{}; ///< if the run has a timeline
  std::vector<reported_timeline> told{};               ///< of workers and shards of other processes, likewise
};

run_outcome nothing_told(std::uint32_t workers, std::uint32_t shards = 0);

/// The ledger of a run, and the contradictions between the counts of its two ends.
struct audited_ledger {
  gradient_ledger ledger;
  /// Of a run that is over: that of a shard that is left, if `ledger` is that of a lost one.
  std::optional<shard_ledger> kept{};
  std::vector<std::string> contradictions; ///< one line each; empty if every gradient is accounted for
};

/// Whether a shard died before its report. A user's own actor may leave out accounts, but no weights.
bool is_lost(const shard_report& s);

/// Compares two independent counts of the gradients of a run.
///
/// Workers count the gradients that they produced. Shards, and under hogwild the shared block, count those
/// that they took. Every shard has a ledger of its own. The run gets the one that does not balance, if there
/// is one, otherwise the one that lost most. The ledgers differ only if a worker died between two pushes, or
/// a shard is lost, which has lost all. Then `kept` is chosen from the others by the same rule.
///
/// A gradient may be lost with its worker, with a shard, or in a batch that was never complete. Any other
/// gradient that is missing, or was taken more than once, is a contradiction: the ledger does not balance.
///
/// While the run goes on, nothing contradicts, because the counts are of different moments.
///
/// `written` counts the updates of the shared block in hogwild; none if the run had no such block. No shard
/// knows how many updates a lost worker made there, so the excess counts as produced by that worker.
audited_ledger audit(const run_outcome& outcome, std::optional<std::uint64_t> written);

/// The part of a report that comes from the actors' reports: ending, counts, ledger, staleness and waits.
///
/// Where the two ends of the audited ledger contradict each other, the run has failed, and `why` says so.
///
/// `written` counts the updates of the shared block in hogwild; none if the run had no such block.
training_report report_of(const run_outcome& outcome, std::optional<std::uint64_t> written = {});

/// The same of a run that goes on, from copies of its actors' books (run_outcome::ending::running). Steps and
/// samples are at least those that `told` has. Each gradient counts once: produced = applied + merged +
/// discarded + lost + those under way. Waits are absent until every worker has told its own.
training_report report_so_far(const run_outcome& books, const training_progress& told,
                              std::optional<std::uint64_t> written = {});

/// The progress of a run at its end; an earlier figure may be some steps old.
training_progress final_progress(const run_outcome& outcome, instant elapsed);

run_trace trace_of(const run_outcome& outcome, instant started, instant ended);

/// The weights that the shards reported, float32[size]; nothing if a shard and its part of them are lost.
std::optional<std::vector<float>> joined_weights(const run_outcome& outcome, const parameter_layout& layout);

/// The mean of the cure's factor over all gradients; none without gradients or a factor.
std::optional<double> mean_factor(const cure& c, const staleness_histogram& gaps);

/// "shard 0 holds worker 1 after step 17, ..., for 2.1 s"
std::string in_words(const wait_reason& w);

} // namespace mailgrad
