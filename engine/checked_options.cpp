#include <mailgrad/engine/checked_options.hpp>

#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/engine/worker/worker_devices.hpp>
#include <mailgrad/optim/cures/cure.hpp>
#include <mailgrad/optim/policies/hogwild.hpp>
#include <mailgrad/optim/policies/policy.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

cure_setting setting_of(const training_options& o, const std::vector<scheduled_policy>& policies) {
  cure_setting setting{{}, workers_of(o), o.local_steps > 0 ? o.outer : o.optimizer, o.local_steps};
  for (const scheduled_policy& p : policies) setting.policies.push_back(p.policy);
  if (is_automatic(o.policy)) setting.policies.emplace_back("async");
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
  const auto cure = make_cure(o.cure, {workers_of(o)});
  if (cure && cure->predicts() && o.sample_gap > 0)
    throw std::invalid_argument(
        "sample gap: under cure '" + o.cure +
        "' workers compute at predicted weights, which no version is to be compared with; leave "
        "one of both out");
  require_cure(o.cure, setting_of(o, policies));
}

void require_amounts(const training_options& o, const data_split& data) {
  if (o.batch == 0) throw std::invalid_argument("batch: 0 samples; at least 1 is needed");
  if (o.shards == 0) throw std::invalid_argument("shards: 0; at least 1 is needed");
  if (o.epochs == 0 && o.steps == 0)
    throw std::invalid_argument("epochs and steps are both 0: nothing to do");
  if (data.train.size() == 0)
    throw std::invalid_argument("data '" + data.name + "' holds no sample to train on");
  if (o.batch > data.train.size())
    throw std::invalid_argument("batch: " + std::to_string(o.batch) + " samples; the training set has " +
                                std::to_string(data.train.size()));
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
    throw std::invalid_argument("policy '" + o.policy + "': the run ends at step " + std::to_string(steps) +
                                ", before the switch at step " + std::to_string(policies.back().from_step));
}

} // namespace

dealer_options deal_of(const training_options& o, const data_split& data, const std::string& first_policy) {
  return {data.train.size(), o.batch, o.steps > 0 ? std::numeric_limits<std::uint32_t>::max() : o.epochs,
          o.steps,           o.seed,  keeps_in_step(first_policy) ? deal_mode::by_rank : deal_mode::on_demand,
          workers_of(o)};
}

std::vector<scheduled_policy> checked_policies(const training_options& o, const data_split& data) {
  require_worker_devices(o);
  auto policies = parse_policy_schedule(o.policy, workers_of(o));
  require_optimizers(o, policies);
  if (!o.record.empty() && o.replay)
    throw std::invalid_argument("record: a replay repeats recording '" + o.replay->name +
                                "' and makes none of its own");
  require_amounts(o, data);
  require_text(o, data);
  require_time_for(o, data, policies);
  return policies;
}

void require_switch(const training_options& o, std::vector<scheduled_policy> policies,
                    const std::string& policy) {
  require_policy(policy, workers_of(o));
  policies.push_back({0, policy});
  require_cure(o.cure, setting_of(o, policies));
}

void require_dense_if_needed(const training_options& o, const parameter_layout& layout) {
  const auto cure = make_cure(o.cure, {workers_of(o)});
  const bool compensates = cure && cure->compensates();
  if (!compensates && o.local_steps == 0) return;
  const auto table = std::ranges::find(layout.variables(), true, &placed_variable::sparse);
  if (table == layout.variables().end()) return;
  throw std::invalid_argument((o.local_steps > 0 ? std::string("local steps") : "cure '" + o.cure + "'") +
                              ": the gradient of table '" + table->name +
                              "' comes in rows, and this needs all of it; take a model without tables");
}

optimizer_options shard_optimizer(const training_options& o) {
  return adapted_optimizer(o.cure, o.local_steps > 0 ? o.outer : o.optimizer, workers_of(o));
}

} // namespace mailgrad
