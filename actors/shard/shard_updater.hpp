#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/shard/shard.hpp>

#include <memory>
#include <span>
#include <vector>

namespace mailgrad {

/// Makes the next version of a shard from the gradients that count: on the thread of its parameter actor, or
/// with hands, each of which computes parts.
///
///     add()... --update_alone()--> updated --clear()--> next
///     add()... --ask_for_help()--> under way --compute_part()..., the last part is computed, end()--> updated
///
/// The last part may be computed here, which compute_part() says, or by a hand, which says `update_helped`.
///
/// Errors  as shard::update() has them; an update that is under way cannot end then.
/// Threads one caller at a time; hands touch only the parts they have begun.
class shard_updater {
public:
  /// `hands` may be empty.
  shard_updater(caf::event_based_actor* self, std::shared_ptr<shard> weights, std::vector<caf::actor> hands,
                std::shared_ptr<const time_source> time);

  /// `x` counts as `what` in the update at hand; null: it is part of a sum that was added before.
  void add(const push_gradient& x, const contribution* what);
  /// Forgets the gradients of an update that is done.
  void clear();

  /// Applies what was added, the learning rate times `rate`.
  void update_alone(double rate);

  /// Whether hands would have something to do.
  bool divides() const { return !hands_.empty() && weights_->divides(); }
  /// As update_alone(), but begun only.
  void ask_for_help(double rate);
  bool under_way() const noexcept { return work_ != nullptr; }
  /// True if that was the last part of all; else, unless none was left, the actor has sent itself `go_on`.
  bool compute_part();
  /// All parts are computed.
  void end();

  /// What was added since clear(), in that order.
  std::span<const push_gradient> gradients() const noexcept { return gradients_; }
  instant begun() const noexcept { return begun_; }
  /// The time it took, until now, divided among its gradients.
  instant share_of_each() const;

private:
  caf::event_based_actor* self_;
  std::shared_ptr<shard> weights_;
  std::vector<caf::actor> hands_;
  std::shared_ptr<const time_source> time_;
  std::vector<push_gradient> gradients_;
  std::vector<contribution> contributions_;
  instant begun_{0};
  object_pool<parallel_update> works_;
  std::shared_ptr<parallel_update> work_; ///< of an update that hands help with
};

} // namespace mailgrad
