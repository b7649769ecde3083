#include <mailgrad/actors/run/ended_weights.hpp>

#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/plan/run_tester.hpp>

#include <exception>
#include <utility>

namespace mailgrad {

void ended_weights::take(const run_outcome& outcome, const hogwild_store* block) {
  if (!last_.empty()) return;
  if (!plan_.has_shards()) {
    last_.resize(plan_.layout->size());
    block->load(0, last_);
  } else {
    last_ = joined_weights(outcome, *plan_.layout).value_or(std::vector<float>());
  }
}

void ended_weights::choose(const std::function<bool()>& stop_test) {
  if (std::exchange(chosen_, true) || plan_.options.keep == kept_weights::last) return;
  best_ = tested_.best();
  if (!best_ || last_.empty() || not_finite_in_words(*plan_.layout, last_)) return;
  try {
    const evaluation e = test_last(stop_test);
    if (e.whole && e.loss < best_->test.loss) best_.reset();
  } catch (const std::exception& failure) {
    why_untested_ = failure.what();
  }
}

evaluation ended_weights::test_last(const std::function<bool()>& stop_test) const {
  evaluation e;
  run_tester tester(plan_.model, plan_.request, plan_.layout, card_for_tests(plan_.options));
  tester.with_model([&](tested_model& model) {
    model.use("the test", last_);
    e = evaluate(model, plan_.judged_by(), stop_test);
  });
  return e;
}

std::span<const float> ended_weights::chosen() const { return best_ ? best_->weights : last_; }

} // namespace mailgrad
