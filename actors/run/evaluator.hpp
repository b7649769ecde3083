#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/plan/run_tester.hpp>

namespace mailgrad {

struct evaluator_options {
  model_function model;
  model_request request;
  std::shared_ptr<const parameter_layout> layout;
  std::shared_ptr<const dataset> samples{};
  std::vector<caf::actor> shards{};             ///< empty if the whole run is hogwild
  std::shared_ptr<const hogwild_store> store{}; ///< null if no policy is hogwild
  std::shared_ptr<const time_source> time{};
  std::function<bool()> stop{}; ///< asked by the evaluator now and then; true: give the test up
  bool held_out = false;        ///< whether the samples are held out of those that are trained
  /// Called by the evaluator after each whole test with the weights, float32[layout->size()]; may block.
  std::function<void(const evaluation_made&, std::span<const float>)> on_tested{};
  std::optional<device> gpu{}; ///< where it tests; none: on the host
};

/// Tests the weights of a run in progress. It asks each shard for a snapshot, or reads the shared block, so
/// no worker waits for it. The snapshots of several shards may be some updates apart. It computes within a
/// handler, and waits there for its queue on a GPU, so it needs a thread of its own.
///
///     idle --test_weights--> asking --shard_read of every shard--> tested --weights_tested--> idle
///                               ^------------ the GPU has failed ---'
/// Weights of shards on its GPU are copied there, and those of others by way of the host. From the first
/// failure on the GPU on it tests on the host, this test included. Each answer says why, and why a test is
/// left out that lacks weights, or fails on the host.
/// Guarantees  each test_weights is answered once, unless a shard dies: then the run ends.
class evaluator : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.evaluator";

  evaluator(caf::event_based_actor* self, evaluator_options options);
  caf::behavior make_behavior();

private:
  void on_read(const shard_read& x);
  void ask_for_weights();
  void test_if_all_read();
  bool try_to_test(weights_tested& answer);
  bool any_on_gpu() const {
    return std::ranges::any_of(on_gpu_, [](const snapshot& s) { return static_cast<bool>(s); });
  }
  void give_weights_to(tested_model& model);

  evaluator_options options_;
  run_tester tester_;
  std::vector<float> parameters_; ///< those that came to the host
  /// By shard: those that lie on the GPU of the tests, until they are copied; else empty.
  std::vector<snapshot> on_gpu_;
  bool lie_there_ = false; ///< some weights of this test
  caf::actor asker_;
  std::uint64_t steps_ = 0;   ///< trained when the weights were asked for
  double seconds_ = 0;        ///< of this test, with what was tried in vain
  std::size_t awaited_ = 0;   ///< shards
  std::string lacks_weights_; ///< why the test is left out: some shard has given none; else empty
};

/// The weights of a run that has ended: the last ones, or the best of its tests, as its options say.
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
  std::span<const float> chosen() const { return best_ ? best_->weights : last_; }
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
