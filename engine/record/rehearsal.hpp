#pragma once

#include <mailgrad/engine/account/staleness_histogram.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/record/recorded_incarnations.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/shard/order_entry.hpp>
#include <mailgrad/engine/shard/policy_machine.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// The options, besides the recording, that determine the course of a replay.
struct replay_terms {
  std::string policy;            ///< the first policy
  std::uint64_t local_steps = 0; ///< of a worker between two exchanges; 0: each gradient goes to the shards
  bool elastic = false;          ///< EASGD: a worker exchanges before a step whose gradient it has computed
  std::uint64_t batches = std::numeric_limits<std::uint64_t>::max(); ///< in the whole run
};

/// Hears what the shards of a rehearsal do, each in its order.
class rehearsal_listener {
public:
  virtual ~rehearsal_listener() = default;
  /// A shard has judged a gradient of a worker, which had trained `batches` by then. `gap`: the versions
  /// since its weights were read.
  virtual void judged(std::size_t shard, const order_entry& entry, verdict what, std::uint64_t gap,
                      std::uint64_t batches) = 0;
  /// A shard makes an update of so many of the gradients that it has judged to be merged, those that came
  /// first.
  virtual void merged([[maybe_unused]] std::size_t shard, [[maybe_unused]] std::uint64_t gradients) {}
  /// At a shard a round is over: what was deferred is to be merged next.
  virtual void round_over([[maybe_unused]] std::size_t shard) {}
  /// A shard has sent its weights to a worker.
  virtual void answered(std::size_t shard, rank worker) = 0;
};

/// Simulates a replay without data, gradients and threads. Before a replay begins, this tells whether every
/// entry will get its gradient, and every worker its weights.
///
/// It waits for the same things as parameter_actor, device_actor, feeder and policy_switcher. It takes a step
/// of a worker or an entry of a shard as soon as one is possible; their order does not change the result. It
/// does not compute losses: if the recorded run diverged, a worker diverges after its last recorded gradient.
/// A shard that lacks entries of a worker that was lost answers it at once.
class rehearsal {
public:
  /// `r` must pass require_repeatable() and outlive this object, as must `listener`, which may be null.
  /// Errors  recording_error: a batch that the data do not have; std::invalid_argument: an unknown policy.
  rehearsal(const recording& r, const replay_terms& terms, rehearsal_listener* listener = nullptr);

  /// Goes as far as possible. A later call goes further if entries have been added to the recording.
  /// Errors  recording_error: a worker pushes a gradient before the last one was taken, or gets weights
  ///         twice.
  void run();
  /// Whether every worker has ended and every entry is taken.
  bool has_ended() const;
  /// What the replay waits for, in words; call it only if has_ended() is false.
  std::string obstacle() const;

  version_number version(std::size_t s) const { return shards_[s].made; }

  // The state so far, from which repeatable_part() completes the recording of a killed run.
  std::size_t entries_taken(std::size_t s) const { return shards_[s].next; }
  std::uint64_t switches_made(std::size_t s) const { return shards_[s].switches; }
  bool joined(std::size_t s, std::size_t w) const { return shards_[s].joined[w]; }
  bool left(std::size_t s, std::size_t w) const { return shards_[s].left[w]; }
  bool gone(std::size_t w) const { return workers_[w].gone; }
  std::uint64_t step_taken(std::size_t s, std::size_t w) const { return shards_[s].taken[w]; }
  /// The step of the gradient that has arrived and is not yet taken; 0 if there is none.
  std::uint64_t step_arrived(std::size_t s, std::size_t w) const { return shards_[s].arrived[w]; }
  /// For each worker the last gradient that any shard has taken, in the order in which they were first taken.
  std::vector<order_entry> last_gradients() const;
  /// The batches that a worker had trained when it pushed the last gradient that any shard has taken.
  std::uint64_t batches_in_taken(std::size_t w) const { return workers_[w].batches_in_taken; }

private:
  /// A shard without weights: it counts its versions, and the gradients that wait.
  struct shard final : policy_machine::side {
    shard(std::size_t s, const replay_terms& terms, const recording& r, rehearsal_listener* listener);

    version_number version() const override { return made; }
    bool nothing_waits() const override { return pending + deferred == 0; }
    bool update(waits_in where, std::size_t first) override;
    void update_of_nothing() override { ++made; }
    void add_lost(waits_in where) override {
      if (where != waits_in::batch) add(where);
    }
    void begin_round(std::uint64_t rounds_over) override {
      while (rounds < rounds_over) turn_over();
    }
    void skip_to_waiting() override {
      if (pending == 0) turn_over();
    }
    void clear_rounds() override { rounds = 0; }
    void add(waits_in where) { ++(where == waits_in::next_round ? deferred : pending); }
    void turn_over();

    std::size_t index;
    rehearsal_listener* hears;
    policy_machine machine;
    version_number made;
    std::uint64_t pending = 0;  ///< gradients that wait, or places of a queue
    std::uint64_t deferred = 0; ///< those that wait for the next round
    std::uint64_t rounds = 0;   ///< that are over
    std::uint64_t switches = 0;
    std::size_t next = 0; ///< index of the next entry
    // By rank:
    std::vector<entries_of_worker> has;                       ///< in the order
    std::vector<std::optional<incarnation_number>> joined_as; ///< the last entry in which it joined
    std::vector<bool> joined, left, in_policy, waits;
    std::vector<std::uint64_t> arrived; ///< the step of the gradient that has arrived; 0: none
    std::vector<std::uint64_t> taken;   ///< the last step taken
    std::vector<version_number> version_read;
  };
  struct worker {
    std::size_t begun = 0;              ///< incarnations that have begun; the last of them is this one
    std::uint64_t step = 0;             ///< of its last gradient
    std::uint64_t last_recorded = 0;    ///< the last step for which any shard has an entry
    bool ends = false;                  ///< any shard has an entry in which it leaves
    std::uint64_t batches = 0;          ///< trained or in training
    std::uint64_t batches_in_taken = 0; ///< trained by its last gradient that any shard has taken
    std::uint64_t local = 0;            ///< steps of its own since the last exchange
    bool holds_step = false;            ///< elastic: a local step waits for the answers
    bool gone = true;                   ///< it has ended, or has not begun
    std::vector<bool> answered;         ///< by shard
    std::size_t missing = 0;            ///< answers still missing
    order_entry first_taken;            ///< the first entry of its last gradient that any shard has taken
    std::uint64_t taken_as = 0;         ///< the number of that entry among all such entries, from 1; 0: none
  };

  /// The present incarnation of a worker, or the last one that has ended.
  const recorded_incarnation& incarnation_of(std::size_t w) const {
    return incarnations_.of(w)[workers_[w].begun - 1];
  }
  bool is_now(std::size_t w, incarnation_number incarnation) const {
    return workers_[w].begun > 0 && incarnation_of(w).incarnation == incarnation;
  }
  bool is_due(std::size_t w) const;
  bool give_slot(std::size_t w);
  void begin_incarnation(std::size_t w);
  void answer(std::size_t s, std::size_t w);
  bool advance_worker(std::size_t w);
  bool lacks_deals(std::size_t w) const;
  void train_batch(std::size_t w);
  void push(std::size_t w);
  void await_answers(std::size_t w);
  bool at_switch(std::size_t w) const;
  bool takes_held(std::size_t w) const;
  bool flush(std::size_t w);
  bool pass_switch();

  bool take_entry(std::size_t s);
  bool is_ready(const shard& s, const order_entry& t) const;
  void greet(shard& s, const order_entry& t);
  void take_gradient(std::size_t s, const order_entry& t);
  verdict judge(std::size_t s, const order_entry& t);
  void send_home(std::size_t s, std::uint32_t w);
  void let_go(std::size_t s, const order_entry& t);
  void change_policy(shard& s);
  void release(std::size_t s);

  [[noreturn]] void refuse(const std::string& why) const;
  std::string wait_of_shard(std::size_t s) const;
  std::string wait_of_worker(std::size_t w) const;

  const recording& r_;
  replay_terms terms_;
  rehearsal_listener* listener_;
  recorded_incarnations incarnations_;
  std::deque<shard> shards_;
  std::vector<worker> workers_; ///< by rank
  std::uint64_t passed_ = 0;    ///< switches
  std::uint64_t gradients_ = 0; ///< gradients that any shard has taken
};

/// Refuses, before it begins, a replay that would wait forever.
/// Errors  recording_error that names the shard, its turn, and what the turn waits for; as rehearsal.
void require_replay_ends(const recording& r, const replay_terms& terms);

/// The part of a killed run's recording that can be repeated, as if the run had been stopped there. Each
/// shard takes all recorded entries whose gradients arrive. A gradient that one shard has taken is taken by
/// all. A shard without a recorded entry for it takes it at the end, in the order in which other shards took
/// such gradients.
/// Errors  as require_repeatable() and rehearsal.
recording repeatable_part(const recording& r, const replay_terms& terms);

/// How fast the workers of a recorded run were, and what their order made of it: all that the moments of its
/// first shard tell.
///
/// A step lasts from the moment at which that shard answers the worker until it judges the gradient. So it
/// includes the ways of both messages, the update before it, other shards and the wait for a batch, but not
/// the wait for other workers. Steps between two exchanges share their time equally.
struct recorded_pace {
  std::vector<std::vector<instant>> steps; ///< by rank: how long each of its steps took, one at least
  instant lasted{0};                       ///< from the begin of the first step to the last gradient
  instant waited{0};                       ///< of all workers, for others at a barrier or a bound
  std::uint64_t updates = 0;               ///< of the first shard, as these
  std::uint64_t discarded = 0;             ///< gradients
  staleness_histogram gaps;                ///< of gradients that were applied or merged
};

/// Rehearses the run and takes its times. A recording does not tell when a worker began its first step. All
/// begin at the latest moment at which no first step is shorter than the median of its worker's later ones.
///
/// `r` must pass require_repeatable().
/// Errors  recording_error in one line: it was not completed, or workers came or went; a worker has too few
///         steps, or moments that fall; as rehearsal and require_replay_ends().
recorded_pace pace_of(const recording& r, const replay_terms& terms);

} // namespace mailgrad
