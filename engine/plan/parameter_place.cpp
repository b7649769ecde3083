#include <mailgrad/engine/plan/parameter_place.hpp>

#include <mailgrad/engine/plan/worker_devices.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

/// The host is no core: "host", or the core that somebody named.
std::string place_in_words(device d) { return d == device{} ? "host" : to_string(d); }

std::string places_in_words(const training_options& o) {
  std::string words;
  for (const device d : o.parameters) words += (words.empty() ? "" : ",") + place_in_words(d);
  return words;
}

[[noreturn]] void refuse(const training_options& o, const std::string& why) {
  throw std::invalid_argument(fmt::format("--parameters: {}: {}", places_in_words(o), why));
}

void require_places(const training_options& o) {
  for (const device d : o.parameters) {
    if (d.kind == device_kind::cpu && d.index != 0)
      refuse(o, "weights on the host belong to no core; say host");
    if (d.lane != 0) refuse(o, "name the card alone; each shard has a lane of its own there");
    if (d.kind == device_kind::cuda) require_here(d);
  }
  if (o.parameters.size() > o.shards)
    refuse(o, fmt::format("{} places for {} shard{}; give as many shards, or fewer places",
                          o.parameters.size(), o.shards, o.shards == 1 ? "" : "s"));
}

/// `who` needs it, and takes the words `or_else` for what else would do.
void require_one_card(const training_options& o, const std::string& who, const std::string& or_else) {
  const device first = o.parameters.front();
  for (const std::vector<device>& all : {o.parameters, o.devices})
    for (const device d : all)
      if (!is_same_card(first, d))
        refuse(o, fmt::format("{} all weights and all workers share one card, and {} is elsewhere; "
                              "name lanes of that card alone{}",
                              who, to_string(is_same_card(first, first) ? d : first), or_else));
}

/// Refuses what reads the rows of a table's gradient on the host.
void require_no_other_readers(const training_options& o, const std::vector<scheduled_policy>& policies,
                              const std::string& table) {
  const auto refuse_with = [&](const std::string& what) {
    refuse(o, fmt::format("{} needs the gradient of table '{}' on the host; leave one of both out", what,
                          table));
  };
  if (o.optimizer.clip_norm != 0) refuse_with("clipping");
  if (o.sample_gap > 0) refuse_with("sampling of gaps");
  for (const scheduled_policy& p : policies)
    if (p.policy.traits().has_rounds) refuse_with(fmt::format("policy '{}'", p.policy.text()));
}

[[noreturn]] void refuse_to_run_ahead(const std::string& why) {
  throw std::invalid_argument("--run-ahead 1: workers do not run ahead " + why + "; take --run-ahead 0");
}

} // namespace

device place_of_shard(const training_options& o, std::uint32_t shard) {
  return o.parameters.empty() ? device{} : o.parameters[shard % o.parameters.size()];
}

bool has_shard_on_card(const training_options& o) {
  return std::ranges::find(o.parameters, device_kind::cuda, &device::kind) != o.parameters.end();
}

/// The policy auto looks at waits, which a worker that runs ahead has on its card.
std::uint64_t steps_ahead(const training_options& o, const std::vector<scheduled_policy>& policies) {
  if (o.run_ahead) return *o.run_ahead;
  const auto reads_arrival = [](const scheduled_policy& p) { return p.policy.traits().reads_arrival; };
  return is_automatic(o.policy) || std::ranges::any_of(policies, reads_arrival) ? 0 : most_run_ahead;
}

void require_run_ahead(const training_options& o, const std::vector<scheduled_policy>& policies) {
  if (o.run_ahead.value_or(0) > most_run_ahead)
    throw std::invalid_argument(
        fmt::format("--run-ahead: {} steps; at most {} can be begun while one is under way", *o.run_ahead,
                    most_run_ahead));
  if (o.run_ahead.value_or(0) == 0 || o.replay) return;
  if (o.optimizer.clip_norm != 0) refuse_to_run_ahead("with --clip-norm, which reads each gradient first");
  if (o.sample_gap > 0) refuse_to_run_ahead("with --sample-gap, which compares each gradient first");
  if (o.devices.size() > workers_of(o)) refuse_to_run_ahead("if a model spans devices");
  if (has_hogwild(policies)) refuse_to_run_ahead("in a run under hogwild");
  const auto is_near = [&](device worker) {
    return !o.parameters.empty() &&
           std::ranges::all_of(o.parameters, [&](device place) { return is_same_card(worker, place); });
  };
  if (std::ranges::none_of(o.devices, is_near)) refuse_to_run_ahead("unless all weights are on their card");
}

void require_parameter_place(const training_options& o, const std::vector<scheduled_policy>& policies,
                             const cure_spec& cure) {
  require_places(o);
  if (!has_shard_on_card(o)) return;
  if (has_hogwild(policies)) require_one_card(o, "under hogwild", ", or take async"); // to write to one block
  if (o.all_reduce) refuse(o, "all-reduce adds gradients up on the host; leave one of both out");
  if (o.parameter_actor)
    refuse(o, fmt::format("parameter actor '{}' runs on the host; leave one of both out",
                          o.parameter_actor->name));
  if (std::holds_alternative<own_rule>(o.optimizer.rule) || std::holds_alternative<own_rule>(o.outer.rule))
    refuse(o, fmt::format("rule '{}' is a user's, which runs on the host; leave one of both out",
                          name(std::holds_alternative<own_rule>(o.optimizer.rule) ? o.optimizer : o.outer)));
  if (o.devices.size() > workers_of(o) && (o.optimizer.clip_norm != 0 || o.sample_gap > 0))
    refuse(o, fmt::format("{} reads the whole gradient of a model that spans devices on the host; leave one "
                          "of both out",
                          o.sample_gap > 0 ? "sampling of gaps" : "clipping"));
  if (cure.traits().sees_variables)
    refuse(o, fmt::format("cure '{}' looks at whole variables on the host; leave one of both out", o.cure));
  if (cure.is_own())
    refuse(o, fmt::format("cure '{}' is a user's, which runs on the host; leave one of both out", o.cure));
}

void require_precision(const std::vector<device>& devices, product_precision p) {
  if (p == product_precision::float32) return;
  const auto core = std::ranges::find(devices, device_kind::cpu, &device::kind);
  if (core != devices.end())
    throw std::invalid_argument(
        fmt::format("--precision: {}: {} computes in float32 alone; name lanes of cards as the devices, or "
                    "take --precision float32",
                    name(p), to_string(*core)));
}

void require_parameter_place(const training_options& o, const std::vector<scheduled_policy>& policies,
                             const parameter_layout& layout) {
  if (!has_shard_on_card(o)) return;
  const auto table = std::ranges::find(layout.variables(), true, &placed_variable::sparse);
  if (table == layout.variables().end()) return;
  require_one_card(o, fmt::format("with table '{}'", table->name), "");
  require_no_other_readers(o, policies, table->name);
}

} // namespace mailgrad
