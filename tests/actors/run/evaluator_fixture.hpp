#pragma once

#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/evaluator.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>

namespace mailgrad::testing {

/// Fixture of an evaluator of a model in two shards, which the test plays.
class evaluator_test : public DeterministicTest {
protected:
  static run_plan plan() {
    training_options o;
    o.shards = 2;
    o.batch = 8;
    return plan_run(small_model(), small_data(), o);
  }
  evaluator_options options() {
    evaluator_options o{plan_.model, plan_.request, plan_.layout};
    o.samples = std::shared_ptr<const dataset>(plan_.data, &plan_.data->test);
    o.shards = {shards_[0].actor(), shards_[1].actor()};
    o.time = time_;
    return o;
  }
  double expected_loss() const {
    return evaluate(plan_.model, plan_.request, *plan_.layout, weights_, plan_.data->test).loss;
  }

  const run_plan plan_ = plan();
  const std::vector<float> weights_ = first_weights(*plan_.layout, plan_.options.seed);
  std::vector<listener<read_shard>> shards_{listen<read_shard>(), listen<read_shard>()};
};

} // namespace mailgrad::testing
