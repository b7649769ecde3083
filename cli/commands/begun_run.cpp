#include <mailgrad/cli/commands/begun_run.hpp>

#include <mailgrad/cli/commands/checkpoint_words.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <utility>

namespace mailgrad {

foreseen_run foresee(const model_function& model, const std::shared_ptr<const data_split>& data,
                     const training_options& options) {
  const run_plan plan = plan_run(model, data, options);
  const checkpoint* const from = options.resume.get();
  return {plan.layout, from && steps_done(*from) >= plan.steps};
}

begun_run begun(training_options& options, without_recording then,
                const std::function<std::unique_ptr<training>()>& make, const bool& has_listened) {
  std::string without;
  try {
    return {make()};
  } catch (const recording_error& e) {
    if (!options.resume || options.record.empty()) throw;
    if (has_listened)
      throw recording_error(std::string(e.what()) + "; let workers join that compute on what is recorded");
    if (then == without_recording::fails)
      throw recording_error(std::string(e.what()) + "; leave --record out");
    without = std::string("this run goes on without a recording: ") + e.what();
  }
  options.record.clear();
  return {make(), std::move(without)};
}

} // namespace mailgrad
