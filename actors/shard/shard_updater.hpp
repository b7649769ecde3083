#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/shard/shard.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

/// Makes the next version of a shard from the gradients that count, on the thread of its parameter actor or
/// with helpers that compute parts.
///
///     add()... --update_alone()--> updated --clear()--> next
///     add()... --ask_for_help()--> under way --compute_part()..., the last part is computed, end()--> updated
///
/// If the last part is computed here, compute_part() returns true; if a helper computes it, the helper sends
/// `update_helped`.
///
/// Errors  std::runtime_error: which update of which rule failed, and why. The shard cannot go on.
///         out_of_memory: likewise, but the weights are those of before.
/// Threads one caller at a time; helpers touch only the parts they have begun.
class shard_updater {
public:
  /// `helpers` may be empty.
  shard_updater(caf::event_based_actor* self, std::shared_ptr<shard> weights, std::vector<caf::actor> helpers,
                std::shared_ptr<const time_source> time);

  /// Adds `x`, which counts as `what`, to the present update; null: it is part of a sum added before.
  void add(const gradient_header& x, const contribution* what);
  /// Adds what counts in the present update beside the gradients that are new in it.
  void add(const contribution& what) { contributions_.push_back(what); }
  /// What the sum of the present update is multiplied by; 1 unless said.
  void multiply(float share) { share_ = share; }
  /// Forgets the gradients of the last update.
  void clear();

  /// Applies the added gradients, with the learning rate times `rate`.
  void update_alone(double rate);

  /// Whether the update has parts for helpers.
  bool divides() const { return !helpers_.empty() && weights_->divides(); }
  /// Begins what update_alone() does, with helpers.
  void ask_for_help(double rate);
  bool under_way() const noexcept { return work_ != nullptr; }
  /// True if this was the last part of all. If it was another, the actor has sent itself `go_on`.
  bool compute_part();
  /// Ends the update when all parts are computed.
  void end();
  /// "update 4 by rule 'adam'"
  std::string in_words() const;
  /// Throws what says that the present update cannot be computed.
  [[noreturn]] void fail(const std::string& why) const;

  /// The gradients added since clear(), in that order.
  std::span<const gradient_header> gradients() const noexcept { return gradients_; }
  instant begun() const noexcept { return begun_; }
  /// The time since begun(), divided by the number of gradients.
  instant share_of_each() const;

private:
  caf::event_based_actor* self_;
  std::shared_ptr<shard> weights_;
  std::vector<caf::actor> helpers_;
  std::shared_ptr<const time_source> time_;
  std::vector<gradient_header> gradients_;
  std::vector<contribution> contributions_;
  float share_ = 1;
  instant begun_{0};
  object_pool<parallel_update> works_;
  std::shared_ptr<parallel_update> work_; ///< the update with helpers that is under way; else null
};

} // namespace mailgrad
