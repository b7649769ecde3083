#pragma once

#include <mailgrad/engine/account/run_outcome.hpp>
#include <mailgrad/engine/checkpoint/best_weights.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

/// The weights of a run that has ended: the last ones, or the best of its tests, as its options say.
///
/// Threads the owner's.
class ended_weights {
public:
  /// Both must outlive it.
  ended_weights(const run_plan& plan, const best_weights& tested) : plan_(plan), tested_(tested) {}

  /// Takes the last ones from the shards, or from the block of a run without shards. Once is enough.
  void take(const run_outcome& outcome, const hogwild_store* block);
  /// Decides between the last and the best. The last are tested as well, since they may be the best;
  /// `stop_test` ends that. The best are kept if the last cannot be tested. What it decides first stays.
  void choose(const std::function<bool()>& stop_test);

  /// float32[size of the layout]; empty if a shard was lost.
  std::span<const float> last() const noexcept { return last_; }
  std::span<const float> chosen() const;
  /// The best, if they were chosen.
  const std::optional<kept_best>& best() const noexcept { return best_; }
  /// What failed in the test of the last ones; empty if nothing did.
  const std::string& why_untested() const noexcept { return why_untested_; }

private:
  evaluation test_last(const std::function<bool()>& stop_test) const;

  const run_plan& plan_;
  const best_weights& tested_;
  std::vector<float> last_;       ///< with which the run ended
  std::optional<kept_best> best_; ///< taken in their place
  bool chosen_ = false;           ///< between both
  std::string why_untested_;
};

} // namespace mailgrad
