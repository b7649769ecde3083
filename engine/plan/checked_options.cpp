#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/plan/parameter_place.hpp>
#include <mailgrad/engine/plan/whole_variables.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/optim/policies/sync.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument("--all-reduce: " + what);
}

} // namespace

void require_sums_can_be(const training_options& o) {
  if (!o.all_reduce) return;
  require(
      o.policy == sync_policy::policy_name,
      fmt::format("expected policy sync, under which every update is a mean over all workers, found '{}'; "
                  "take --policy sync, or leave --all-reduce out",
                  o.policy));
  require(
      o.cure == "none",
      fmt::format("expected no cure, which needs the gradient of each worker, found '{}'; leave --cure out",
                  o.cure));
  require(o.optimizer.clip_norm == 0,
          "expected no clipping, which needs the norm of each gradient; leave --clip-norm out");
  require(o.local_steps == 0,
          "expected no local steps, whose differences are no gradients; leave --local-steps out");
  require(o.sample_gap == 0,
          "expected no sampling of gaps, which compares single gradients; leave --sample-gap out");
  require(
      seats_of(o) == workers_of(o),
      "expected no seats for later workers, since each sum is over the ranks that began; leave --seats out");
  require(
      o.record.empty() && !o.replay,
      "expected no recording, since a replay has the gradients of each worker and adds them up otherwise; "
      "leave --record out");
  require(o.checkpoints.folder.empty() && !o.resume, "expected no checkpoints, since a sum that is under way "
                                                     "belongs to no worker's part; leave --checkpoint out");
  require(!o.parameter_actor, "expected Mailgrad's own parameter actor; leave the other out");
  require(o.devices.size() == workers_of(o), "expected one device for each worker; leave the others out");
}

namespace {

/// That such a run may switch its policy while it goes on.
///
/// Errors  std::invalid_argument if the options ask for sums: a worker that paused for the switch would hold
///         up a sum, and who waits for the sum does not pause.
void require_switch_can_be(const training_options& o) {
  require(!o.all_reduce, "expected no switch of policy, since who pauses for it would hold up a sum");
}

cure_setting setting_of(const training_options& o, const std::vector<scheduled_policy>& policies) {
  cure_setting setting{{}, seats_of(o), o.local_steps > 0 ? o.outer : o.optimizer, o.local_steps};
  for (const scheduled_policy& p : policies) setting.policies.push_back(p.policy);
  if (is_automatic(o.policy)) setting.policies.emplace_back("async", seats_of(o));
  return setting;
}

void require_optimizers(const training_options& o, const std::vector<scheduled_policy>& policies,
                        const cure_spec& cure) {
  require_valid(o.optimizer);
  require_valid(o.outer);
  if (o.local_steps > 0 && has_hogwild(policies))
    throw std::invalid_argument(
        "--local-steps: under hogwild workers write into one block at every step; take async");
  if (o.local_steps > 0 && o.sample_gap > 0)
    throw std::invalid_argument(
        "--sample-gap: with --local-steps shards get differences, which no batch has a fresh "
        "gradient for; leave one of both out");
  if (o.sample_gap > 0 && policies.size() == 1 && has_hogwild(policies))
    throw std::invalid_argument("--sample-gap: under hogwild no version stays to compare with; take async");
  if (cure.traits().predicts && o.sample_gap > 0)
    throw std::invalid_argument(fmt::format(
        "--sample-gap: under cure '{}' workers compute at predicted weights, which no version is to be "
        "compared with; leave one of both out",
        o.cure));
  cure.require_fits(setting_of(o, policies));
}

void require_amounts(const training_options& o, const data_split& data) {
  if (o.batch == 0) throw std::invalid_argument("--batch: 0 samples; at least 1 is needed");
  if (o.epochs == 0 && o.steps == 0)
    throw std::invalid_argument("--epochs and --steps are both 0: nothing to do");
  if (data.train.size() == 0)
    throw std::invalid_argument(fmt::format("data '{}' holds no sample to train on", data.name));
  if (o.batch > data.train.size())
    throw std::invalid_argument(
        fmt::format("--batch: {} samples; the training set has {}", o.batch, data.train.size()));
}

void require_text(const training_options& o, const data_split& data) {
  if (o.text.length > 0 && data.train.is_tokens())
    require_writable(o.text, data.class_names, data.train.classes());
}

void require_parameter_actor(const training_options& o, const std::vector<scheduled_policy>& policies,
                             const cure_spec& cure) {
  if (!o.parameter_actor) return;
  const std::string named = fmt::format("parameter actor '{}'", o.parameter_actor->name);
  if (has_hogwild(policies)) throw std::invalid_argument(named + ": hogwild has no parameter actors");
  if ((policies.size() > 1 || is_automatic(o.policy)) && !o.parameter_actor->switches)
    throw std::invalid_argument(named + " switches no policy; name one alone");
  if (cure.traits().pull)
    throw std::invalid_argument(
        fmt::format("cure '{}': workers would be drawn to what {} knows nothing of", o.cure, named));
  if (!o.record.empty() || o.replay)
    throw std::invalid_argument(
        fmt::format("--record: {} does not tell the order in which it takes gradients", named));
}

/// Who joins late begins with the weights of the shards, and the shards tell what they took of who died.
void require_seats(const training_options& o, const std::vector<scheduled_policy>& policies) {
  if (seats_of(o) == workers_of(o)) return;
  if (has_hogwild(policies))
    throw std::invalid_argument(
        "--seats: under hogwild no actor can let a worker in later; leave them out, or take async");
  if (o.parameter_actor)
    throw std::invalid_argument(
        fmt::format("--seats: parameter actor '{}' takes only the workers that a run begins with",
                    o.parameter_actor->name));
}

void require_tests(const training_options& o, const data_split& data) {
  if (!o.replay) stop_conditions_of(o, &data);
  if (o.evaluate_every.never()) {
    if (o.patience > 0)
      throw std::invalid_argument("--patience: the weights are not tested during the run; say how often to "
                                  "test, as --evaluate-every epoch");
    if (o.keep == kept_weights::best)
      throw std::invalid_argument("--keep-weights best: the weights are not tested during the run; say how "
                                  "often to test, as --evaluate-every epoch");
    return;
  }
  if (data.test.size() == 0 && data.validation.size() == 0)
    throw std::invalid_argument(
        fmt::format("--evaluate-every: data '{}' holds no sample to test on", data.name));
  if (o.parameter_actor)
    throw std::invalid_argument(
        fmt::format("--evaluate-every: parameter actor '{}' is not asked for its weights before the end",
                    o.parameter_actor->name));
}

void require_time_for(const training_options& o, const data_split& data,
                      const std::vector<scheduled_policy>& policies) {
  if (policies.size() == 1 || o.replay) return;
  const std::uint64_t steps = dealer(deal_of(o, data, policies.front().policy)).batches();
  if (policies.back().from_step >= steps)
    throw std::invalid_argument(
        fmt::format("policy '{}': the run ends at step {}, before the switch at step {}", o.policy, steps,
                    policies.back().from_step));
}

/// A condition on a figure that no line of this run has would never hold.
void require_figures(const std::vector<stop_condition>& conditions, const data_split& data) {
  const bool numbers = data.train.has_targets();
  for (const stop_condition& c : conditions)
    if (c.figure.ends_with(numbers ? "_accuracy" : "_rmse"))
      throw std::invalid_argument(
          fmt::format("--stop-when: data '{}' has {} to predict, so '{}' is not known; take {}", data.name,
                      numbers ? "numbers" : "classes", c.figure, numbers ? "rmse" : "accuracy"));
}

/// A replay takes the precision of its recording, so its devices are what can be other ones.
void require_precision_of(const training_options& o) {
  if (o.elsewhere) return;
  const bool has_core = std::ranges::find(o.devices, device_kind::cpu, &device::kind) != o.devices.end();
  if (o.replay && o.precision != product_precision::float32 && has_core)
    throw recording_error(fmt::format("recording '{}': its products were in {}, and a core computes in "
                                      "float32 alone; replay it on cards, such as --devices cuda:0",
                                      o.replay->name, name(o.precision)));
  require_precision(o.devices, o.precision);
}

} // namespace

dealer_options deal_of(const training_options& o, const data_split& data, const policy_spec& first_policy) {
  return {data.train.size(),
          o.batch,
          o.steps > 0 ? std::numeric_limits<std::uint32_t>::max() : o.epochs,
          o.steps,
          o.seed,
          first_policy.traits().deals_by_rank ? deal_mode::by_rank : deal_mode::on_demand,
          workers_of(o),
          seats_of(o)};
}

std::vector<scheduled_policy> checked_policies(const training_options& o, const cure_spec& cure) {
  auto policies = parse_policy_schedule(o.policy, seats_of(o));
  require_optimizers(o, policies, cure);
  require_parameter_actor(o, policies, cure);
  require_seats(o, policies);
  require_whole_variables_fit(o, policies);
  require_sums_can_be(o);
  require_precision_of(o);
  require_parameter_place(o, policies, cure);
  require_run_ahead(o, policies);
  if (!o.delays.empty() && !o.replay) delay_spec(o.delays, seats_of(o)); // refuses what is none
  if (!o.record.empty() && o.replay)
    throw std::invalid_argument(
        fmt::format("--record: a replay repeats recording '{}' and makes none of its own", o.replay->name));
  if (o.shards == 0) throw std::invalid_argument("--shards: 0; at least 1 is needed");
  return policies;
}

void require_data_for(const training_options& o, const std::vector<scheduled_policy>& policies,
                      const data_split& data) {
  require_amounts(o, data);
  require_text(o, data);
  if (!o.delays.empty() && !o.replay) delay_spec(o.delays, seats_of(o)).require_fits(data.train);
  require_tests(o, data);
  require_time_for(o, data, policies);
}

std::vector<stop_condition> stop_conditions_of(const training_options& o, const data_split* data) {
  if (o.stop_when.empty()) return {};
  const bool tested = !o.evaluate_every.never() && data;
  const auto on = !tested                       ? judged_on::nothing
                  : data->validation.size() > 0 ? judged_on::validation
                                                : judged_on::test;
  std::vector<stop_condition> conditions = parse_stop_conditions(o.stop_when, on);
  if (data) require_figures(conditions, *data);
  return conditions;
}

void require_switch(const training_options& o, std::vector<scheduled_policy> policies, const cure_spec& cure,
                    const std::string& policy) {
  policies.push_back({0, policy_spec(policy, seats_of(o))});
  require_switch_can_be(o);
  require_whole_variables_fit(o, policies);
  require_parameter_place(o, policies, cure);
  cure.require_fits(setting_of(o, policies));
}

void require_dense_if_needed(const training_options& o, const cure_spec& cure,
                             const parameter_layout& layout) {
  if (!cure.traits().compensates && o.local_steps == 0 && !o.all_reduce) return;
  const auto table = std::ranges::find(layout.variables(), true, &placed_variable::sparse);
  if (table == layout.variables().end()) return;
  const std::string what = o.all_reduce        ? "all-reduce"
                           : o.local_steps > 0 ? "--local-steps"
                                               : fmt::format("cure '{}'", o.cure);
  throw std::invalid_argument(
      fmt::format("{}: the gradient of table '{}' comes in rows, and this needs all of "
                  "it; take a model without tables",
                  what, table->name));
}

optimizer_options shard_optimizer(const training_options& o, const cure_spec& cure) {
  return cure.adapted(o.local_steps > 0 ? o.outer : o.optimizer);
}

} // namespace mailgrad
