#include <mailgrad/engine/plan/known_plugins.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/kernels/arithmetic.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <iterator>
#include <system_error>

namespace mailgrad {

namespace {

/// 0.1 for 0.10000000000000001, and 1e-8 for 1e-08. What is no number, or a whole one, stays as it is.
std::string shortest(std::string_view word) {
  double number = 0;
  const auto [rest, wrong] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_whole = word.find_first_of(".e") == word.npos;
  if (is_whole || wrong != std::errc() || rest != word.data() + word.size()) return std::string(word);
  std::string text = fmt::format("{}", number);
  for (const std::string_view zero : {"e-0", "e+0"})
    if (const std::size_t at = text.find(zero); at != text.npos) text.erase(at + 2, 1);
  return text;
}

std::string with_short_numbers(std::string_view value) {
  constexpr std::string_view between = " ,=:@";
  std::string text;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find_first_of(between, begin), value.size());
    text += shortest(value.substr(begin, end - begin));
    if (end < value.size()) text += value[end];
    begin = end + 1;
  }
  return text;
}

/// The words between spaces. Those in quotes may have spaces, and lose the quotes.
std::vector<std::string> words_of(std::string_view value) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : value) {
    if (c == '\'')
      quoted = !quoted;
    else if (c == ' ' && !quoted)
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

/// What the workers of a run compute on, if they are in this process.
std::vector<worker_computer> computers_of(const training_options& o) {
  std::vector<worker_computer> all;
  for (std::uint32_t w = 0; w < workers_of(o); ++w) all.push_back(computer_of(devices_of(o, w)));
  return all;
}

/// "NVIDIA H100", or what each shard is updated by, if they differ: "the host, NVIDIA H100".
std::string format_updaters(const training_options& o) {
  std::string words;
  const std::string first = format_computer(place_of_shard(o, 0));
  bool differ = false;
  for (std::uint32_t s = 0; s < o.shards; ++s) {
    const std::string next = format_computer(place_of_shard(o, s));
    differ = differ || next != first;
    words += (s == 0 ? "" : ", ") + next;
  }
  return differ ? words : first;
}

/// "a" and "b" of "a, b", if ", " is the mark.
std::vector<std::string_view> parts_of(std::string_view text, std::string_view mark) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(mark, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + mark.size();
  }
  return parts;
}

/// What an option of the recorded run names; none if that is not known, or is not all on this machine.
std::vector<device> recorded_devices(const recording& r, std::string_view option,
                                     std::string_view if_not_given) {
  if (r.header.words.empty()) return {}; // a program has made it
  std::string list(if_not_given);
  for (const std::string_view word : r.header.words)
    if (word.starts_with(option) && word.substr(option.size()).starts_with('='))
      list = word.substr(option.size() + 1);
  std::erase(list, ' ');
  std::vector<device> all;
  try {
    for (const std::string_view name : parts_of(list, ",")) {
      all.push_back(name == "host" ? device{} : parse_device(name));
      require_here(all.back());
    }
  } catch (const device_error&) {
    return {};
  }
  return all;
}

using gpus_here = std::vector<cuda::runtime::gpu>;

/// A core, or the first GPU of this name, as format_computer() gives it; none if there is no such GPU.
std::optional<device> device_named(std::string_view name, const gpus_here& gpus) {
  if (name == format_computer(device{})) return device{};
  const auto gpu = std::ranges::find(gpus, name, &cuda::runtime::gpu::name);
  if (gpu == gpus.end()) return {};
  return device{device_kind::cuda, static_cast<std::uint32_t>(gpu - gpus.begin())};
}

struct remedy {
  bool is_left_out = false; ///< what is recorded does
  std::string words = {};   ///< "--devices cuda:0", if not
  std::string lacking = {}; ///< the name of a GPU that this machine does not have
};

/// "--devices cuda:0,cuda:0/1,cpu:0" for names as format_names() gives them. GPUs of one name are one GPU
/// here. A model needs different cores, while workers may share one.
remedy devices_like(std::string_view names) {
  const gpus_here gpus = cuda::runtime::find_gpus().gpus;
  std::map<std::uint32_t, std::uint32_t> streams; // taken of each GPU
  std::string list;
  for (const std::string_view worker : parts_of(names, ", ")) {
    std::uint32_t cores = 0;
    for (const std::string_view name : parts_of(worker, " and ")) {
      std::optional<device> d = device_named(name, gpus);
      if (!d) return {.lacking = std::string(name)};
      if (d->kind == device_kind::cpu)
        d->index = cores++;
      else
        d->stream = streams[d->index]++;
      list += (list.empty() ? "" : ",") + to_string(*d);
    }
  }
  return {.words = "--devices " + list};
}

/// The fewest of these that are all of them if they are taken in turn.
std::size_t period_of(const std::vector<std::string_view>& all) {
  for (std::size_t n = 1; n < all.size(); ++n)
    if (std::equal(all.begin() + static_cast<std::ptrdiff_t>(n), all.end(), all.begin())) return n;
  return all.size();
}

/// "--parameters host,cuda:0" for names as format_updaters() gives them.
remedy places_like(std::string_view names) {
  std::vector<std::string_view> all = parts_of(names, ", ");
  all.resize(period_of(all));
  const gpus_here gpus = cuda::runtime::find_gpus().gpus;
  std::string list;
  for (const std::string_view name : all) {
    const std::optional<device> d = device_named(name, gpus);
    if (!d) return {.lacking = std::string(name)};
    list += (list.empty() ? "" : ",") + (d->kind == device_kind::cpu ? "host" : to_string(*d));
  }
  return {.words = "--parameters " + list};
}

/// None if these workers round as the recorded ones did.
std::optional<remedy> way_of_workers(const recording& r, const run_facts& here) {
  if (!tells(here, computers_fact)) return {};
  const std::string told = reported_fact(r.header.facts, computers_fact);
  if (told == reported_fact(here, computers_fact)) return {};
  training_options as_recorded;
  as_recorded.devices = recorded_devices(r, "--devices", "cpu:0");
  as_recorded.workers = r.header.workers;
  const bool was_on_cores = !tells(r.header.facts, computers_fact);
  if (!as_recorded.devices.empty() && as_recorded.devices.size() % r.header.workers == 0) {
    const std::vector<worker_computer> computers = computers_of(as_recorded);
    if (was_on_cores ? !any_has_gpu(computers) : format_names(computers) == told)
      return remedy{.is_left_out = true};
  }
  return was_on_cores ? remedy{.words = "cores in --devices"} : devices_like(told);
}

/// None if these shards round as the recorded ones did.
std::optional<remedy> way_of_weights(const recording& r, const run_facts& here) {
  if (!tells(here, updaters_fact)) return {};
  const bool was_on_host = !tells(r.header.facts, updaters_fact);
  const std::string told =
      was_on_host ? format_computer(device{}) : reported_fact(r.header.facts, updaters_fact);
  if (told == reported_fact(here, updaters_fact)) return {};
  training_options as_recorded;
  as_recorded.parameters = recorded_devices(r, "--parameters", "host");
  as_recorded.shards = r.header.shards;
  if (!as_recorded.parameters.empty() && format_updaters(as_recorded) == told)
    return remedy{.is_left_out = true};
  return places_like(told);
}

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

std::string in_words(double x, std::string_view) { return exactly(x); }
std::string in_words(std::uint64_t n, std::string_view) { return std::to_string(n); }
std::string in_words(bool holds, std::string_view name) { return holds ? std::string(name) : "plain"; }
std::string in_words(const std::string& text, std::string_view) { return "'" + text + "'"; }

template <class Rule>
std::string settings_of(const Rule& o) {
  std::string text;
  Rule::visit(o, [&](std::string_view name, const auto& value, setting_range) {
    text.append(text.empty() ? 0 : 1, ' ').append(in_words(value, name));
  });
  return text;
}
std::string settings_of(const custom_rule& o) {
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
                                      format_fact(what, expected), format_fact(what, found)));
}

bool is_recorded(const training_options& o, std::string_view fact) {
  return o.replay && tells(o.replay->header.facts, fact);
}

/// Whether any worker of the run, or of the recorded one, computes on a GPU.
bool has_gpu(const training_options& o) {
  return std::ranges::find(o.devices, device_kind::cuda, &device::kind) != o.devices.end() ||
         is_recorded(o, computers_fact);
}

/// Gradients of a GPU and of a host round differently. Some recordings do not tell what multiplied.
void tell_computers(run_facts& facts, const training_options& o) {
  const bool tells_products = !o.replay || is_recorded(o, products_fact);
  if (!o.elsewhere) {
    if (!has_gpu(o)) return;
    facts.emplace_back(computers_fact, format_names(computers_of(o)));
    if (tells_products) facts.emplace_back(products_fact, products_here());
    return;
  }
  if (o.elsewhere->empty() || !(any_has_gpu(*o.elsewhere) || is_recorded(o, computers_fact))) return;
  facts.emplace_back(computers_fact, format_names(*o.elsewhere));
  if (tells_products) facts.emplace_back(products_fact, format_products(*o.elsewhere));
}

/// The hash of weights to begin with: of every variable with its name and shape.
std::string hash_of(const saved_weights& start) {
  std::string text;
  for (const saved_weights::variable& v : start.variables)
    text += v.name + ';' + to_string(v.values.dims()) + ';' + sha256(std::as_bytes(v.values.values())) + '\n';
  return hash_of(text);
}

struct fact_source {
  const model_function& model;
  const model_request& request;
  const data_split& data;
  const training_options& o;
};

/// A fact that every run tells, and the option of the tool that decides on it; null: none does.
struct fact_row {
  std::string_view fact;
  const char* option;
  std::string (*is)(const fact_source&);
};

constexpr fact_row every_fact[] = {
    {"version of mailgrad", nullptr, [](auto&) { return std::string(MAILGRAD_VERSION); }},
    {"arithmetic", nullptr, [](auto&) { return format_arithmetic(); }},
    {"number of training samples", nullptr, [](auto& f) { return std::to_string(f.data.train.size()); }},
    {samples_fact, nullptr, [](auto& f) { return digest_of(f.data.train); }},
    {model_fact, nullptr, [](auto& f) { return hash_of_all(f.model, f.request, f.o); }},
    {"policy", "--policy", [](auto& f) { return f.o.policy; }},
    {"cure", "--cure", [](auto& f) { return f.o.cure; }},
    {"optimizer", "--optimizer", [](auto& f) { return in_words(f.o.optimizer); }},
    {"learning rate", "--lr", [](auto& f) { return exactly(base_learning_rate(f.o.optimizer)); }},
    {"local steps", "--local-steps", [](auto& f) { return std::to_string(f.o.local_steps); }},
    {"outer optimizer", "--outer-optimizer", [](auto& f) { return in_words(f.o.outer); }},
    {"outer learning rate", "--outer-lr", [](auto& f) { return exactly(base_learning_rate(f.o.outer)); }},
    {"schedule", "--schedule", [](auto& f) { return to_string(f.o.optimizer.schedule); }},
    {"weight decay", "--weight-decay", [](auto& f) { return exactly(base_weight_decay(f.o.optimizer)); }},
    {"l2", "--l2", [](auto& f) { return exactly(f.o.optimizer.l2); }},
    {"clip norm", "--clip-norm", [](auto& f) { return exactly(f.o.optimizer.clip_norm); }},
    {batch_fact, "--batch", [](auto& f) { return std::to_string(f.o.batch); }},
    {"number of devices of a worker", nullptr,
     [](auto& f) { return std::to_string(f.o.devices.size() / workers_of(f.o)); }},
    {"number of micro-batches", "--micro-batches", [](auto& f) { return std::to_string(f.o.micro_batches); }},
    {"epochs", nullptr, [](auto& f) { return std::to_string(f.o.epochs); }},
    {"steps", nullptr, [](auto& f) { return std::to_string(f.o.steps); }},
    {"seed", "--seed", [](auto& f) { return std::to_string(f.o.seed); }},
    {first_weights_fact, nullptr,
     [](auto& f) { return f.o.start ? hash_of(*f.o.start) : std::string(drawn_weights); }},
};

/// A thing that its fact gives by a digest, which tells nobody what it was.
struct named_thing {
  std::string_view fact;
  std::string_view name_fact;
  const char* was;
  const char* is;
};

constexpr std::array<named_thing, 2> named_things{{
    {samples_fact, "name of the data", "the training data were", "are"},
    {model_fact, "name of the model", "the model was", "is"},
}};

/// "--batch", or "the arithmetic" of what no option says.
std::string subject(std::string_view fact) {
  const auto by = std::ranges::find(every_fact, fact, &fact_row::fact);
  return by == std::end(every_fact) || !by->option ? fmt::format("the {}", fact) : by->option;
}

const std::string* find(const run_facts& facts, std::string_view what) {
  const auto found = std::ranges::find(facts, what, &run_facts::value_type::first);
  return found == facts.end() ? nullptr : &found->second;
}

/// "lenet (SHA-256 cd3456789abc...)"
std::string named(const std::string* name, const std::string& digest) {
  const std::string shortened = digest.size() > 12 ? "SHA-256 " + digest.substr(0, 12) + "..." : digest;
  return name ? fmt::format("{} ({})", *name, shortened) : shortened;
}

std::string difference(const run_facts& told, const run_facts& here, const run_facts::value_type& fact) {
  const auto& [what, is] = fact;
  const std::string was = reported_fact(told, what);
  const auto thing = std::ranges::find(named_things, std::string_view(what), &named_thing::fact);
  if (thing == named_things.end())
    return fmt::format("{} was {}, and is {} here", subject(what), format_fact(what, was),
                       format_fact(what, is));
  return fmt::format("{} {}, and {} {} here", thing->was, named(find(told, thing->name_fact), was), thing->is,
                     named(find(here, thing->name_fact), is));
}

} // namespace

std::string format_fact(std::string_view fact, const std::string& value) {
  if (fact != "optimizer" && fact != "outer optimizer") return with_short_numbers(value);
  const std::vector<std::string> words = words_of(value);
  const std::vector<std::string_view> names = optimizer_setting_names(words[0]);
  if (words.size() != names.size() + 1) return with_short_numbers(value);
  std::string text = words[0];
  for (std::size_t i = 0; i < names.size(); ++i)
    if (const std::string& word = words[i + 1]; !word.empty())
      text += fmt::format("{}{}={}", text.find(':') == text.npos ? ':' : ',', names[i],
                          names[i] != "nesterov" ? shortest(word)
                          : word == names[i]     ? "yes"
                                                 : "no");
  return text;
}

std::string places_that_would_do(const recording& r, const run_facts& here) {
  std::vector<std::string> named, left_out;
  const std::optional<remedy> workers = way_of_workers(r, here), weights = way_of_weights(r, here);
  for (const auto& [option, way] : {std::pair("--devices", &workers), std::pair("--parameters", &weights)}) {
    if (!*way) continue;
    if (!(*way)->lacking.empty()) return fmt::format("; this machine has no GPU '{}'", (*way)->lacking);
    if ((*way)->is_left_out)
      left_out.emplace_back(option);
    else
      named.push_back((*way)->words);
  }
  std::string words;
  if (!left_out.empty()) words = fmt::format("; leave {} out", fmt::join(left_out, " and "));
  if (!named.empty()) words += fmt::format("; replay it with {}", fmt::join(named, " and "));
  return words;
}

run_facts facts_of(const model_function& model, const model_request& request, const data_split& data,
                   const training_options& o) {
  run_facts facts;
  for (const fact_row& row : every_fact) facts.emplace_back(row.fact, row.is({model, request, data, o}));
  tell_computers(facts, o);
  if (has_shard_on_gpu(o) || is_recorded(o, updaters_fact))
    facts.emplace_back(updaters_fact, format_updaters(o));
  if (o.precision != product_precision::float32 || is_recorded(o, precision_fact))
    facts.emplace_back(precision_fact, name(o.precision));
  for (const optimizer_options* used : {&o.optimizer, &o.outer})
    if (const auto* own = std::get_if<custom_rule>(&used->rule); own && !own->file.empty())
      facts.emplace_back(plugin_fact(own->file), plugin_digest(own->file));
  for (const auto& files : {plugins_of_policy(o.policy), plugins_of_cure(o.cure)})
    for (const std::string& file : files) facts.emplace_back(plugin_fact(file), plugin_digest(file));
  return facts;
}

run_facts names_of(const data_split& data, const training_options& o) {
  run_facts names;
  for (const named_thing& t : named_things)
    if (const std::string& name = t.fact == model_fact ? o.model_name : data.name; !name.empty())
      names.emplace_back(t.name_fact, name);
  return names;
}

bool tells(const run_facts& facts, std::string_view what) { return find(facts, what) != nullptr; }

std::string reported_fact(const run_facts& told, std::string_view what) {
  if (const std::string* const found = find(told, what)) return *found;
  if (what == computers_fact) return format_computer({device_kind::cpu, 0});
  if (what == precision_fact) return std::string(name(product_precision::float32));
  return what == first_weights_fact ? drawn_weights : "not told";
}

std::string differences(const run_facts& told, const run_facts& here,
                        std::span<const std::string_view> free) {
  std::string all;
  for (const auto& fact : here) {
    const bool is_name = std::ranges::find(named_things, std::string_view(fact.first),
                                           &named_thing::name_fact) != named_things.end();
    if (is_name || std::ranges::find(free, fact.first) != free.end()) continue;
    if (reported_fact(told, fact.first) == fact.second) continue;
    all += (all.empty() ? "" : "; ") + difference(told, here, fact);
  }
  return all;
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
  require_fact(r, "the " + plugin_fact(file), reported_fact(r.header.facts, plugin_fact(file)), found);
  return found;
}

void require_same_run(const recording& r, const training_options& o, const run_facts& facts) {
  require_fact(r, "the number of workers", std::to_string(r.header.workers), std::to_string(workers_of(o)));
  require_fact(r, "the number of shards", std::to_string(r.header.shards), std::to_string(o.shards));
  if (const std::string found = differences(r.header.facts, facts); !found.empty())
    throw recording_error(fmt::format("recording '{}': {}{}", r.name, found, places_that_would_do(r, facts)));
}

} // namespace mailgrad
