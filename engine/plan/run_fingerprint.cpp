#include <mailgrad/engine/plan/run_fingerprint.hpp>

#include <mailgrad/data/samples_digest.hpp>
#include <mailgrad/engine/plan/computers_of_run.hpp>
#include <mailgrad/engine/plan/fact_as_typed.hpp>
#include <mailgrad/engine/plan/known_plugins.hpp>
#include <mailgrad/engine/plan/parameter_place.hpp>
#include <mailgrad/engine/plan/replay_places.hpp>
#include <mailgrad/engine/plan/worker_computers.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/files/sha256.hpp>
#include <mailgrad/kernels/arithmetic.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

std::string hash_of(const std::string& text) { return sha256(std::as_bytes(std::span(text))); }

std::string exactly(double number) { return fmt::format("{:.17g}", number); }

/// The number of a device within its worker, because a replay may use other devices.
std::string place_of(device d, const model_request& request) {
  return std::to_string(std::ranges::find(request.devices, d) - request.devices.begin());
}

std::string in_words(const initialiser& i) {
  return std::to_string(static_cast<int>(i.distribution)) + ' ' + exactly(static_cast<double>(i.a)) + ' ' +
         exactly(static_cast<double>(i.b));
}

std::string in_words(const tensor& fixed) {
  return to_string(fixed.dims()) + ' ' +
         sha256(std::span(fixed.data(), fixed.size() * byte_size(fixed.type())));
}

/// The hash of every node with its attributes, its shape and its inputs, but without its source line.
std::string hash_of(const model_function& model, const model_request& request) {
  graph g;
  model(g, request);
  std::string text;
  for (const node& n : g.nodes()) {
    text += n.name + ';';
    if (const auto* op = std::get_if<operation_node>(&n.what))
      text.append((*op)->name()).append(1, ';').append((*op)->describe());
    if (const auto* variable = std::get_if<variable_node>(&n.what)) text += in_words(variable->first_values);
    if (const auto* fixed = std::get_if<constant_node>(&n.what)) text += in_words(*fixed->values);
    if (const auto* place = std::get_if<device>(&n.place)) text += ";on " + place_of(*place, request);
    for (const value_type& v : n.outputs) text += ';' + to_string(v);
    for (const value& v : n.inputs) text += ';' + std::to_string(v.node()) + '.' + std::to_string(v.output());
    text += '\n';
  }
  return hash_of(text);
}

/// The hash of the models of all workers; if all build the same model, the hash of that one.
std::string hash_of_all(const model_function& model, model_request request, const training_options& o) {
  std::string joined;
  bool same = true;
  const std::string first = hash_of(model, request);
  for (request.worker = 0; request.worker < request.workers; ++request.worker) {
    request.devices = devices_of(o, request.worker);
    const std::string hash = hash_of(model, request);
    same = same && hash == first;
    joined += hash;
  }
  return same ? first : hash_of(joined);
}

std::string settings_of(const sgd_options&) { return {}; }
std::string settings_of(const momentum_options& o) { return exactly(o.momentum); }
std::string settings_of(const nesterov_options& o) { return exactly(o.momentum); }
std::string settings_of(const adagrad_options& o) {
  return exactly(o.epsilon) + ' ' + exactly(o.initial_sum);
}
std::string settings_of(const rmsprop_options& o) { return exactly(o.alpha) + ' ' + exactly(o.epsilon); }
std::string settings_of(const adam_options& o) {
  return exactly(o.beta1) + ' ' + exactly(o.beta2) + ' ' + exactly(o.epsilon);
}
std::string settings_of(const delayed_nesterov_options& o) {
  return exactly(o.momentum) + ' ' + std::to_string(o.period) + ' ' + exactly(o.early);
}
std::string settings_of(const lars_options& o) { return exactly(o.momentum) + ' ' + exactly(o.trust); }
std::string settings_of(const lamb_options& o) {
  return exactly(o.beta1) + ' ' + exactly(o.beta2) + ' ' + exactly(o.epsilon);
}
std::string settings_of(const muon_options& o) {
  return fmt::format("{} {} '{}' {} {} {} {}", exactly(o.momentum), o.nesterov ? "nesterov" : "plain",
                     o.adamw, exactly(o.adamw_rate), exactly(o.beta1), exactly(o.beta2), exactly(o.epsilon));
}
std::string settings_of(const shampoo_options& o) {
  return fmt::format("{} {} {}", exactly(o.epsilon), o.every, o.largest);
}
std::string settings_of(const own_rule& o) {
  std::string text;
  for (const double setting : o.settings) text.append(text.empty() ? 0 : 1, ' ').append(exactly(setting));
  return text;
}

constexpr std::string_view plugin_fact_prefix = "SHA-256 of plug-in '";

std::string plugin_fact(const std::string& file) { return std::string(plugin_fact_prefix) + file + "'"; }

/// "momentum 0.9"
std::string in_words(const optimizer_options& o) {
  const std::string settings = std::visit([](const auto& rule) { return settings_of(rule); }, o.rule);
  return std::string(name(o)).append(settings.empty() ? 0 : 1, ' ').append(settings);
}

void require_fact(const recording& r, const std::string& what, const std::string& expected,
                  const std::string& found) {
  if (expected != found)
    throw recording_error(fmt::format("recording '{}': {} was {}, and is {} here", r.name, what,
                                      fact_as_typed(what, expected), fact_as_typed(what, found)));
}

bool is_recorded(const training_options& o, std::string_view fact) {
  return o.replay && tells(o.replay->header.facts, fact);
}

/// Whether any worker of the run, or of the recorded one, computes on a card.
bool has_card(const training_options& o) {
  return std::ranges::find(o.devices, device_kind::cuda, &device::kind) != o.devices.end() ||
         is_recorded(o, computers_fact);
}

/// Gradients of a card and of a host round differently. Some recordings do not tell what multiplied.
void tell_computers(run_facts& facts, const training_options& o) {
  const bool tells_products = !o.replay || is_recorded(o, products_fact);
  if (!o.elsewhere) {
    if (!has_card(o)) return;
    facts.emplace_back(computers_fact, names_in_words(computers_of(o)));
    if (tells_products) facts.emplace_back(products_fact, products_here());
    return;
  }
  if (o.elsewhere->empty() || !(any_has_card(*o.elsewhere) || is_recorded(o, computers_fact))) return;
  facts.emplace_back(computers_fact, names_in_words(*o.elsewhere));
  if (tells_products) facts.emplace_back(products_fact, products_in_words(*o.elsewhere));
}

/// The hash of weights to begin with: of every variable with its name and shape.
std::string hash_of(const saved_weights& start) {
  std::string text;
  for (const saved_weights::variable& v : start.variables)
    text += v.name + ';' + to_string(v.values.dims()) + ';' + sha256(std::as_bytes(v.values.values())) + '\n';
  return hash_of(text);
}

} // namespace

run_facts facts_of(const model_function& model, const model_request& request, const data_split& data,
                   const training_options& o) {
  run_facts facts{{"version of mailgrad", MAILGRAD_VERSION},
                  {"arithmetic", arithmetic_in_words()},
                  {"number of training samples", std::to_string(data.train.size())},
                  {std::string(samples_fact), digest_of(data.train)},
                  {std::string(model_fact), hash_of_all(model, request, o)},
                  {"policy", o.policy},
                  {"cure", o.cure},
                  {"optimizer", in_words(o.optimizer)},
                  {"learning rate", exactly(base_learning_rate(o.optimizer))},
                  {"local steps", std::to_string(o.local_steps)},
                  {"outer optimizer", in_words(o.outer)},
                  {"outer learning rate", exactly(base_learning_rate(o.outer))},
                  {"schedule", to_string(o.optimizer.schedule)},
                  {"weight decay", exactly(base_weight_decay(o.optimizer))},
                  {"l2", exactly(o.optimizer.l2)},
                  {"clip norm", exactly(o.optimizer.clip_norm)},
                  {std::string(batch_fact), std::to_string(o.batch)},
                  {"number of devices of a worker", std::to_string(o.devices.size() / workers_of(o))},
                  {"number of micro-batches", std::to_string(o.micro_batches)},
                  {"epochs", std::to_string(o.epochs)},
                  {"steps", std::to_string(o.steps)},
                  {"seed", std::to_string(o.seed)},
                  {std::string(first_weights_fact), o.start ? hash_of(*o.start) : drawn_weights}};
  tell_computers(facts, o);
  if (has_shard_on_card(o) || is_recorded(o, updaters_fact))
    facts.emplace_back(updaters_fact, updaters_in_words(o));
  if (o.precision != product_precision::float32 || is_recorded(o, precision_fact))
    facts.emplace_back(precision_fact, name(o.precision));
  for (const optimizer_options* used : {&o.optimizer, &o.outer})
    if (const auto* own = std::get_if<own_rule>(&used->rule); own && !own->file.empty())
      facts.emplace_back(plugin_fact(own->file), plugin_digest(own->file));
  for (const auto& files : {plugins_of_policy(o.policy), plugins_of_cure(o.cure)})
    for (const std::string& file : files) facts.emplace_back(plugin_fact(file), plugin_digest(file));
  return facts;
}

std::string plugin_of_fact(std::string_view fact) {
  if (!fact.starts_with(plugin_fact_prefix)) return {};
  return std::string(fact.substr(plugin_fact_prefix.size(), fact.size() - plugin_fact_prefix.size() - 1));
}

std::string model_digest(const model_function& model, const model_request& request,
                         const training_options& o) {
  return hash_of_all(model, request, o);
}

std::string require_recorded_plugin(const recording& r, const std::string& file) {
  const std::string found = plugin_digest(file);
  require_fact(r, "the " + plugin_fact(file), told_fact(r.header.facts, plugin_fact(file)), found);
  return found;
}

void require_same_run(const recording& r, const training_options& o, const run_facts& facts) {
  require_fact(r, "the number of workers", std::to_string(r.header.workers), std::to_string(workers_of(o)));
  require_fact(r, "the number of shards", std::to_string(r.header.shards), std::to_string(o.shards));
  if (const std::string found = differences(r.header.facts, facts); !found.empty())
    throw recording_error(fmt::format("recording '{}': {}{}", r.name, found, places_that_would_do(r, facts)));
}

} // namespace mailgrad
