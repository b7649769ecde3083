#include <mailgrad/engine/plan/terms.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/graph/placement/replicate.hpp>
#include <mailgrad/graph/serial/serialised_model.hpp>
#include <mailgrad/graph/serialisable.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

constexpr std::uint64_t most_shards = 1 << 16;

/// A variable without its first values, which a worker gets from the shards.
struct reported_variable {
  std::string name;
  shape dims;
  bool sparse = false;

  void keep(archive& a) { a.fields({"name", "shape", "sparse"}, name, dims, sparse); }
};

template <class Rule>
void keep(archive& a, Rule& o) {
  Rule::visit(o, [&](std::string_view name, auto& value, setting_range) { a.field(name, value); });
}
/// The table stays where it is. Who reads the rule completes it with one of its own (known_plugins).
void keep(archive& a, custom_rule& rule) {
  if (!a.reads()) {
    if (!rule.table)
      throw std::invalid_argument(fmt::format("optimizer '{}': your own rule has no table", rule.label));
    rule.label = rule.table->name;
    if (!rule.file.empty()) rule.sha256 = plugin_digest(rule.file);
  }
  a.fields({"name", "sha256", "settings"}, rule.label, rule.sha256, rule.settings);
}

constexpr const char* own_name = "of the user's own";

/// The alternative of that name with its defaults.
template <std::size_t I = 0>
void choose(optimizer_options& o, const std::string& name) {
  using rules = decltype(o.rule);
  if constexpr (I + 1 >= std::variant_size_v<rules>) { // the last one is custom_rule
    throw archive_error(fmt::format("rule: there is none of the name '{}'", name));
  } else {
    if (std::variant_alternative_t<I, rules>::name == name)
      o.rule.template emplace<I>();
    else
      choose<I + 1>(o, name);
  }
}

constexpr std::uint32_t most_slots = 1 << 20;
constexpr std::uint32_t most_devices = 4096;

/// The last step of a worker in the checkpoint that a run goes on from; 0: a new incarnation of it begins.
step_number kept_step(const resumed_run& from, std::uint32_t worker) {
  step_number step;
  if (const auto part = from.worker(worker)) part->group("lines", [&] { part->field("step", step); });
  return step;
}

[[noreturn]] void refuse(const std::string& words) { throw archive_error("terms of a shard: " + words); }

void require_sound(const shard_terms& t) {
  if (t.shard.value >= t.layout->shard_count())
    refuse(
        fmt::format("expected a shard from 0 to {}, found {}", t.layout->shard_count() - 1, t.shard.value));
  const std::size_t size = t.layout->shard(t.shard.value).size();
  if (t.values.size() != size) refuse(fmt::format("expected {} weights, found {}", size, t.values.size()));
  if (t.workers == 0 || t.workers > t.slots || t.slots > most_slots)
    refuse(fmt::format("expected 1 to {} workers and as many slots or more, found {} and {}", most_slots,
                       t.workers, t.slots));
  if (t.devices == 0 || t.devices > most_devices)
    refuse(fmt::format("expected 1 to {} devices of a worker, found {}", most_devices, t.devices));
  for (const std::string_view word : {name_of_choice(t.policy), name_of_choice(t.cure)})
    if (names_a_plugin(word) && std::ranges::find(t.plugins, word, &named_plugin::word) == t.plugins.end())
      refuse(fmt::format(
          "policy '{}', cure '{}': a plug-in is loaded by the process that names it, and by no other",
          t.policy, t.cure));
  if (sees_whole_variables(t.rule) && t.layout->cuts() != shard_cuts::between_variables)
    refuse(fmt::format("expected shards of whole variables for optimizer '{}', found cuts within them",
                       name(t.rule)));
  try {
    const policy_spec policy(t.policy, t.slots);
    const cure_spec cure(t.cure, t.slots);
    if (cure.traits().sees_variables && t.layout->cuts() != shard_cuts::between_variables)
      refuse(fmt::format("expected shards of whole variables for cure '{}', found cuts within them", t.cure));
    parse_wire_format(t.wire);
  } catch (const std::invalid_argument& e) {
    refuse(e.what());
  }
}

void require_same_run(const shard_terms& a, const shard_terms& b) {
  const auto facts = [](const shard_terms& t) {
    return std::tie(t.run, t.policy, t.cure, t.plugins, t.parameter_actor, t.workers, t.slots, t.devices,
                    t.wire, t.records);
  };
  const auto same_variable = [](const placed_variable& x, const placed_variable& y) {
    return x.name == y.name && x.dims == y.dims && x.sparse == y.sparse;
  };
  if (facts(a) != facts(b) || a.layout->shard_count() != b.layout->shard_count() ||
      a.layout->cuts() != b.layout->cuts() ||
      !std::ranges::equal(a.layout->variables(), b.layout->variables(), same_variable))
    refuse("expected shards of one run, found two");
}

void keep_local(archive& a, std::optional<local_steps_options>& local) {
  bool present = local.has_value();
  a.field("steps locally", present);
  if (!present) return local.reset();
  if (!local) local.emplace();
  a.group("local steps", [&] {
    a.field("steps", local->steps);
    keep_optimizer(a, "optimizer", local->optimizer);
    a.field("pull", local->pull);
  });
}

} // namespace

/// Offsets and cuts follow from names, shapes, the number of shards, and whether variables stay whole.
void keep_layout(archive& a, std::string_view name, std::shared_ptr<const parameter_layout>& layout) {
  std::vector<reported_variable> told;
  std::uint64_t shards = 0;
  bool whole = false;
  if (!a.reads()) {
    for (const placed_variable& v : layout->variables()) told.push_back({v.name, v.dims, v.sparse});
    shards = layout->shard_count();
    whole = layout->cuts() == shard_cuts::between_variables;
  }
  a.group(name, [&] { a.fields({"variables", "shards", "whole variables"}, told, shards, whole); });
  if (!a.reads()) return;
  if (shards > most_shards)
    throw archive_error(fmt::format("{}: expected at most {} shards, found {}", name, most_shards, shards));
  std::vector<placed_variable> variables;
  for (reported_variable& v : told) variables.push_back({std::move(v.name), v.dims, {}, 0, v.sparse});
  try {
    layout = std::make_shared<parameter_layout>(
        variables, shards, whole ? shard_cuts::between_variables : shard_cuts::within_variables);
  } catch (const std::invalid_argument& e) {
    throw archive_error(fmt::format("{}: {}", name, e.what()));
  }
}

void keep_optimizer(archive& a, std::string_view name, optimizer_options& o) {
  a.group(name, [&] {
    a.version(1);
    std::string rule(std::holds_alternative<custom_rule>(o.rule) ? own_name : mailgrad::name(o));
    a.field("rule", rule);
    if (a.reads() && rule == own_name)
      o.rule = custom_rule{};
    else if (a.reads())
      choose(o, rule);
    std::visit([&](auto& r) { keep(a, r); }, o.rule);
    a.field("learning_rate", o.learning_rate);
    std::string schedule = to_string(o.schedule);
    a.fields({"schedule", "l2", "weight_decay", "clip_norm"}, schedule, o.l2, o.weight_decay, o.clip_norm);
    if (!a.reads()) return;
    try {
      o.schedule = parse_schedule(schedule);
      if (rule != own_name) require_valid(o);
    } catch (const std::invalid_argument& e) {
      throw archive_error(e.what());
    }
  });
}

void shard_terms::keep(archive& a) {
  a.version(5);
  a.field("run", run);
  a.field("shard", shard);
  keep_layout(a, "layout", layout);
  if (a.reads()) {
    const std::span<const float> told = a.array("values").values;
    values.assign(told.begin(), told.end());
  } else {
    a.hold("values", nullptr, values);
  }
  keep_optimizer(a, "rule", rule);
  a.fields({"policy", "cure", "plugins", "parameter actor", "workers", "slots"}, policy, cure, plugins,
           parameter_actor, workers, slots);
  a.fields({"devices", "wire", "records", "trace events", "keep answers"}, devices, wire, records,
           trace_events, keep_answers);
  keep_nested(a, "resumed", resumed);
  a.fields({"same workers", "counted", "steps"}, same_workers, counted, steps);
}

shard_terms terms_of(const run_plan& plan, shard_index shard, shard_duties with) {
  const training_options& o = plan.options;
  shard_terms t;
  t.run = plan.run;
  t.shard = shard;
  t.layout = plan.layout;
  t.values = plan.first_values(shard.value);
  t.rule = plan.shard_rule;
  t.policy = plan.first_policy().text();
  t.cure = plan.cure.text();
  for (const auto& files : {plugins_of_policy(o.policy), plugins_of_cure(o.cure)})
    for (const std::string& file : files) t.plugins.push_back({file, plugin_digest(file)});
  if (o.parameter_actor) t.parameter_actor = o.parameter_actor->name;
  t.workers = plan.workers();
  t.slots = plan.slots();
  t.devices = plan.devices_per_worker();
  t.wire = with.wire;
  t.records = with.records;
  t.trace_events = o.trace_events;
  t.keep_answers = with.keeps_checkpoints && (o.replay || o.local_steps > 0 || with.records);
  if (!plan.resumed) return t;
  t.resumed = plan.resumed->shard(shard.value);
  t.same_workers = plan.resumed->same_workers;
  t.counted = plan.resumed->card.counted;
  for (std::uint32_t r = 0; r < plan.workers(); ++r) t.steps.push_back(kept_step(*plan.resumed, r));
  return t;
}

std::string write_terms(std::vector<shard_terms> terms) {
  byte_archive_writer a;
  a.field("shards", terms);
  return a.bytes();
}

std::vector<shard_terms> read_shard_terms(std::string_view bytes, const known_plugins& plugins) {
  byte_archive_reader a(bytes, "terms");
  std::vector<shard_terms> terms;
  a.field("shards", terms);
  a.require_end();
  if (terms.empty()) refuse("expected a shard, found none");
  for (shard_terms& t : terms) {
    for (const named_plugin& p : t.plugins) plugins.take(p);
    plugins.complete(t.rule);
    require_sound(t);
  }
  for (std::size_t i = 1; i < terms.size(); ++i) {
    require_same_run(terms[i], terms.front());
    for (std::size_t j = 0; j < i; ++j)
      if (terms[i].shard == terms[j].shard)
        refuse(fmt::format("expected each shard once, found shard {} twice", terms[i].shard.value));
  }
  return terms;
}

void worker_terms::keep(archive& a) {
  a.version(5);
  a.fields({"run", "worker", "incarnation", "late", "request"}, run, worker, incarnation, late, request);
  keep_layout(a, "layout", layout);
  keep_layout(a, "replica layout", replica_layout);
  keep_local(a, local);
  a.fields({"clip norm", "sample gap", "micro batches", "sums apart", "keeps end", "trace events"}, clip_norm,
           sample_gap, micro_batches, sums_apart, keeps_end, trace_events);
  keep_nested(a, "resumed", resumed);
  std::string of_products(name(products));
  a.field("products", of_products);
  products = parse_product_precision(of_products);
  a.fields({"wire", "all reduce", "shard hosts", "data"}, wire, all_reduce, shard_hosts, data);
}

worker_terms terms_of(const run_plan& plan, rank worker, incarnation_number incarnation, bool late) {
  const training_options& o = plan.options;
  worker_terms t;
  t.run = plan.run;
  t.worker = worker;
  t.incarnation = incarnation;
  t.late = late;
  t.request = plan.request_of(worker.value);
  t.layout = plan.layout;
  t.replica_layout = plan.replica_layout;
  if (o.local_steps > 0) t.local = local_steps_options{o.local_steps, o.optimizer, plan.cure.traits().pull};
  t.clip_norm = o.optimizer.clip_norm;
  t.sample_gap = o.sample_gap;
  t.micro_batches = o.micro_batches;
  t.sums_apart = plan.sums_apart;
  t.keeps_end = plan.keeps_end();
  t.trace_events = o.trace_events;
  t.products = o.precision;
  t.all_reduce = o.all_reduce;
  if (plan.resumed && !late) t.resumed = plan.resumed->worker(worker.value);
  return t;
}

std::string write_terms(const run_plan& plan, const worker_terms& terms) {
  worker_terms told = terms;
  // What a lossy format lacks of a sum is kept at the worker, which therefore has to have the sum.
  if (is_lossy(parse_wire_format(told.wire))) told.sums_apart = false;
  std::set<std::size_t> sizes;
  const auto add_sizes = [&](std::size_t batch) {
    const std::vector<std::size_t> parts = batch_parts(batch, told.micro_batches);
    sizes.insert(parts.begin(), parts.end());
  };
  add_sizes(plan.options.batch);
  if (const std::size_t rest = plan.data->train.size() % plan.options.batch; rest > 0) add_sizes(rest);
  std::vector<model_graph> graphs;
  for (const std::size_t size : sizes) {
    model_request r = told.request;
    r.batch = size;
    graphs.push_back(graph_for(plan.model, r));
  }
  const std::vector<std::byte> model = write_model(graphs);
  std::string text(reinterpret_cast<const char*>(model.data()), model.size());
  byte_archive_writer a;
  a.field("terms", told);
  a.field("model", text);
  return a.bytes();
}

given_terms read_terms(std::string_view bytes, operation_registry known, const known_plugins& plugins) {
  byte_archive_reader a(bytes, "terms");
  given_terms told;
  std::string model;
  a.field("terms", told.terms);
  a.field("model", model);
  a.require_end();
  if (told.terms.local) plugins.complete(told.terms.local->optimizer);
  told.model = model_of(read_model(std::as_bytes(std::span(model))), std::move(known));
  return told;
}

} // namespace mailgrad
