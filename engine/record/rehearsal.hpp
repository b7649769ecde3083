#pragma once

#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/optim/policies/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {

/// What the course of a replay depends on besides its recording.
struct replay_terms {
  std::string policy;            ///< the first
  std::uint64_t local_steps = 0; ///< of a worker between two exchanges; 0: each gradient goes to the shards
  bool elastic = false;          ///< EASGD: a worker meets the shards before a step whose gradient it has
  std::uint64_t batches = std::numeric_limits<std::uint64_t>::max(); ///< that the data make in the whole run
};

/// Goes through a replay without data, gradients and threads: what policies decide depends on ranks, steps
/// and versions alone. So it is known before a replay begins whether every turn will find its gradient, and
/// every worker its weights.
///
/// It follows parameter_actor, device_actor, feeder and policy_switcher in what they wait for, and takes a
/// step of a worker or a turn of a shard as soon as one is possible. Replays come to the same in any order,
/// and so does this. It does not know of losses: where the recorded run diverged, a worker diverges after its
/// last recorded gradient.
///
/// Threads one caller at a time.
class rehearsal {
public:
  /// `r` passes require_repeatable() and outlives this.
  ///
  /// Errors  recording_error: a batch that the data do not have; std::invalid_argument for terms that are
  ///         none.
  rehearsal(const recording& r, const replay_terms& terms);

  /// Goes as far as it can, and further if turns have been added to the recording meanwhile.
  ///
  /// Errors  recording_error: two gradients of a worker are under way at once, or it is let go twice.
  void run();

  /// Whether every worker has ended and every turn is taken.
  bool has_ended() const;
  /// What it waits for, in words; it has not ended.
  std::string obstacle() const;

  // How far it is, for what is made of a recording that breaks off.
  std::size_t turns_taken(std::size_t s) const { return shards_[s].next; }
  std::uint64_t switches_made(std::size_t s) const { return shards_[s].switches; }
  bool joined(std::size_t s, std::size_t w) const { return shards_[s].joined[w]; }
  bool left(std::size_t s, std::size_t w) const { return shards_[s].left[w]; }
  bool gone(std::size_t w) const { return workers_[w].gone; }
  std::uint64_t step_taken(std::size_t s, std::size_t w) const { return shards_[s].taken[w]; }
  /// Of the gradient that has come and is not taken; 0: there is none.
  std::uint64_t step_arrived(std::size_t s, std::size_t w) const { return shards_[s].arrived[w]; }
  /// Of each worker the last turn of a gradient that any shard has taken, in the order in which the first
  /// took them.
  std::vector<order_entry> last_gradients() const;
  /// Those that a worker had trained when it pushed its last gradient that any shard has taken.
  std::uint64_t batches_in_taken(std::size_t w) const { return workers_[w].batches_in_taken; }

private:
  struct shard {
    std::unique_ptr<policy> rule;
    std::uint64_t version = 0;
    std::uint64_t pending = 0; ///< gradients in the batch
    std::uint64_t switches = 0;
    std::size_t next = 0; ///< turn
    // By rank:
    std::vector<bool> joined, left, in_policy, waits;
    std::vector<std::uint64_t> arrived; ///< the step of the gradient that has come; 0: none
    std::vector<std::uint64_t> taken;   ///< the last step
    std::vector<std::uint64_t> version_read;
  };
  struct worker {
    std::uint64_t step = 0;             ///< of its last gradient
    std::uint64_t last_recorded = 0;    ///< the last step that any shard has a turn for
    bool ends = false;                  ///< any shard has a turn in which it leaves
    std::uint64_t batches = 0;          ///< trained, or being so
    std::uint64_t batches_in_taken = 0; ///< trained by its last gradient that any shard has taken
    std::uint64_t local = 0;            ///< steps of its own since the last exchange
    bool holds_step = false;            ///< a step of its own waits for the answers: elastic
    bool gone = false;
    std::vector<bool> answered; ///< by shard
    std::size_t missing = 0;    ///< answers
    order_entry first_taken;    ///< of its last gradient that any shard has taken
    std::uint64_t taken_as = 0; ///< the number of that among all of them, from 1; 0: there is none
  };

  [[noreturn]] void refuse(const std::string& why) const;
  bool advance_worker(std::size_t w);
  bool lacks_deals(std::size_t w) const;
  void train_batch(std::size_t w);
  void push(std::size_t w);
  void await_answers(std::size_t w);
  bool at_switch(std::size_t w) const;
  bool pass_switch();

  bool take_turn(std::size_t s);
  bool is_ready(const shard& s, const order_entry& t) const;
  void take_gradient(std::size_t s, const order_entry& t);
  void let_go(shard& s, std::size_t w);
  void change_policy(shard& s);
  void apply_batch(shard& s);
  void release(std::size_t s);

  std::string wait_of_shard(std::size_t s) const;
  std::string wait_of_worker(std::size_t w) const;

  const recording& r_;
  replay_terms terms_;
  std::vector<shard> shards_;
  std::vector<worker> workers_; ///< by rank
  std::uint64_t passed_ = 0;    ///< switches that all workers were paused for
  std::uint64_t gradients_ = 0; ///< that any shard has taken
};

/// A replay that would wait for what never comes is refused before it begins.
///
/// Errors  recording_error that names the shard, its turn, and what that waits for; as rehearsal.
void require_replay_ends(const recording& r, const replay_terms& terms);

} // namespace mailgrad
