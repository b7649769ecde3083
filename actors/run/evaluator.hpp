#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <functional>
#include <memory>
#include <span>
#include <vector>

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
};

/// Tests the weights of a run in progress. It asks each shard for a snapshot, or reads the shared block, so
/// no worker waits for it. The snapshots of several shards may be some updates apart. It computes within a
/// handler, so it needs a thread of its own.
///
///     idle --test_weights--> asking --shard_read of every shard--> tested --weights_tested--> idle
/// Guarantees  each test_weights is answered once, unless a shard dies: then the run ends.
class evaluator {
public:
  static constexpr const char* name = "mailgrad.evaluator";

  evaluator(caf::event_based_actor* self, evaluator_options options)
      : self_(self), options_(std::move(options)), parameters_(options_.layout->size()) {}
  caf::behavior make_behavior();

private:
  void on_test(const test_weights& x);
  void on_read(const shard_read& x);
  void test_if_all_read();
  weights_tested tested() const;

  caf::event_based_actor* self_;
  evaluator_options options_;
  std::vector<float> parameters_;
  caf::actor asker_;
  std::uint64_t steps_ = 0;    ///< trained when the weights were asked for
  std::size_t awaited_ = 0;    ///< shards
  bool lacks_weights_ = false; ///< of some shard, so the test fails
};

} // namespace mailgrad
