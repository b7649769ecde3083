#include <mailgrad/engine/checked_options.hpp>

#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/engine/worker/worker_devices.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

cure_setting setting_of(const training_options& o, const std::vector<scheduled_policy>& policies) {
  cure_setting setting{{}, workers_of(o), o.local_steps > 0 ? o.outer : o.optimizer, o.local_steps};
  for (const scheduled_policy& p : policies) setting.policies.push_back(p.policy);
  if (is_automatic(o.policy)) setting.policies.emplace_back("async", workers_of(o));
  return setting;
}

void require_optimizers(const training_options& o, const std::vector<scheduled_policy>& policies) {
  require_valid(o.optimizer);
  require_valid(o.outer);
  if (o.local_steps > 0 && has_hogwild(policies))
    throw std::invalid_argument(
        "local steps: under hogwild workers write into one block at every step; take async");
  if (o.local_steps > 0 && o.sample_gap > 0)
    throw std::invalid_argument(
        "sample gap: with local steps shards get differences, which no batch has a fresh "
        "gradient for; leave one of both out");
  if (o.sample_gap > 0 && policies.size() == 1 && has_hogwild(policies))
    throw std::invalid_argument("sample gap: under hogwild no version stays to compare with; take async");
  const cure_spec cure(o.cure, workers_of(o));
  if (cure.traits().predicts && o.sample_gap > 0)
    throw std::invalid_argument(fmt::format(
        "sample gap: under cure '{}' workers compute at predicted weights, which no version is to be "
        "compared with; leave one of both out",
        o.cure));
  cure.require_fits(setting_of(o, policies));
}

void require_amounts(const training_options& o, const data_split& data) {
  if (o.batch == 0) throw std::invalid_argument("batch: 0 samples; at least 1 is needed");
  if (o.shards == 0) throw std::invalid_argument("shards: 0; at least 1 is needed");
  if (o.epochs == 0 && o.steps == 0)
    throw std::invalid_argument("epochs and steps are both 0: nothing to do");
  if (data.train.size() == 0)
    throw std::invalid_argument(fmt::format("data '{}' holds no sample to train on", data.name));
  if (o.batch > data.train.size())
    throw std::invalid_argument(
        fmt::format("batch: {} samples; the training set has {}", o.batch, data.train.size()));
}

void require_text(const training_options& o, const data_split& data) {
  if (o.text.length > 0 && data.train.is_tokens())
    require_writable(o.text, data.class_names, data.train.classes());
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

} // namespace

dealer_options deal_of(const training_options& o, const data_split& data, const policy_spec& first_policy) {
  return {data.train.size(),
          o.batch,
          o.steps > 0 ? std::numeric_limits<std::uint32_t>::max() : o.epochs,
          o.steps,
          o.seed,
          first_policy.traits().deals_by_rank ? deal_mode::by_rank : deal_mode::on_demand,
          workers_of(o)};
}

std::vector<scheduled_policy> checked_policies(const training_options& o, const data_split& data) {
  require_worker_devices(o);
  auto policies = parse_policy_schedule(o.policy, workers_of(o));
  require_optimizers(o, policies);
  if (!o.record.empty() && o.replay)
    throw std::invalid_argument(
        fmt::format("record: a replay repeats recording '{}' and makes none of its own", o.replay->name));
  require_amounts(o, data);
  require_text(o, data);
  require_time_for(o, data, policies);
  return policies;
}

void require_switch(const training_options& o, std::vector<scheduled_policy> policies,
                    const std::string& policy) {
  policies.push_back({0, policy_spec(policy, workers_of(o))});
  cure_spec(o.cure, workers_of(o)).require_fits(setting_of(o, policies));
}

void require_dense_if_needed(const training_options& o, const parameter_layout& layout) {
  const bool compensates = cure_spec(o.cure, workers_of(o)).traits().compensates;
  if (!compensates && o.local_steps == 0) return;
  const auto table = std::ranges::find(layout.variables(), true, &placed_variable::sparse);
  if (table == layout.variables().end()) return;
  const std::string what = o.local_steps > 0 ? "local steps" : fmt::format("cure '{}'", o.cure);
  throw std::invalid_argument(
      fmt::format("{}: the gradient of table '{}' comes in rows, and this needs all of "
                  "it; take a model without tables",
                  what, table->name));
}

optimizer_options shard_optimizer(const training_options& o) {
  return cure_spec(o.cure, workers_of(o)).adapted(o.local_steps > 0 ? o.outer : o.optimizer);
}

} // namespace mailgrad
