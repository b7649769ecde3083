#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// Number of a worker among the workers of a run, from 0.
struct rank {
  std::uint32_t value = 0;

  friend auto operator<=>(const rank&, const rank&) = default;
};

/// How many workers a run has.
struct world_size {
  std::uint32_t value = 0;
};

/// What a policy sees of a gradient when a shard takes it from its mailbox.
struct gradient_stamp {
  rank worker;
  std::uint64_t step = 0;         ///< the worker's own count of its gradients, from 1
  std::uint64_t version_read = 0; ///< of the weights it was computed from
  std::uint64_t version_now = 0;  ///< of the shard
  std::int64_t arrived = 0;       ///< ns of the run's time source
};

/// What becomes of a gradient.
enum class verdict : std::uint8_t {
  apply,   ///< makes an update by itself, at once
  merge,   ///< waits in the batch of the next update
  discard, ///< is dropped, with a reason that the ledger counts
};

struct decision {
  verdict what = verdict::apply;
  std::string_view reason{}; ///< of a discard: a word or two, of static storage
};

/// How synchronous training is: a shard asks these questions and moves the messages.
///
///     a gradient arrives:  judge() -> apply | merge | discard
///     merge:               batch_complete() ? -> one update from the batch, then batch_applied()
///     after each of both:  may_start(worker) for every worker that waits; yes sends it the weights
///
/// A policy that takes some gradients and not others needs every shard of a run to take the same
/// (shards_agree): all shards then judge in the order of the first. A policy of your own derives from this
/// and stays where you want it (own_policy.hpp). One of Mailgrad's is named in policy.cpp and tested by
/// itself.
/// Source  Zhu, Naruse & Goto, "Learning Efficient Parameter Server Synchronization Policies for Distributed
///         SGD", ICLR 2020, Algorithm 1: one server loop for every policy.
/// Threads one caller at a time.
class policy {
public:
  virtual ~policy() = default;

  virtual std::string_view name() const noexcept = 0;

  /// Whether all shards must judge gradients in the same order.
  virtual bool shards_agree() const noexcept { return false; }

  /// Whether no gradient is ever applied to another version than it was computed from.
  virtual bool always_fresh() const noexcept { return false; }

  /// Whether an update may be made from more than one gradient.
  virtual bool makes_batches() const noexcept { return false; }

  virtual void join(rank worker) = 0;
  /// The worker sends no more gradients; a batch that waited only for it may now be complete.
  virtual void leave(rank worker) = 0;

  virtual decision judge(const gradient_stamp& g) = 0;
  virtual bool batch_complete() const = 0;
  virtual void batch_applied() = 0;
  virtual bool may_start(rank worker) const = 0;
};

/// Names of all policies, those of users' own behind ours, for errors.
std::vector<std::string_view> policy_names();

/// How each is written, with its numbers, and what it does in a few words: {"ssp:S", "..."}.
struct policy_form {
  std::string_view text;
  std::string_view what;
};
std::vector<policy_form> policy_forms();

/// A policy as an option has it, "async", "ssp:3" or "dssp:1,4", or one of a user's own, "mine:3" or
/// "./libmine.so:3". "hogwild" has no object: its workers ask nobody.
///
/// Errors  std::invalid_argument in one line that says what would be right.
std::unique_ptr<policy> make_policy(std::string_view text, std::uint32_t workers);

/// Errors  as make_policy, but takes "hogwild" too.
void require_policy(std::string_view text, std::uint32_t workers);

/// Whether the feeder deals batches to workers by rank, so that a run gives the same bits every time: a
/// barrier for all of them makes the rest of it independent of the order of arrival.
bool keeps_in_step(std::string_view text);

} // namespace mailgrad
