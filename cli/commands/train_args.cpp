#include <mailgrad/cli/commands/train_args.hpp>

#include <mailgrad/data/formats/csv_fields.hpp>
#include <mailgrad/engine/account/early_stop.hpp>
#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/plugin_library.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/ranges.h>

#include <charconv>

namespace mailgrad {

namespace {

/// 0: not given.
char delimiter_in(const table_args& w) {
  if (w.delimiter.empty()) return 0;
  if (w.delimiter == "tab" || w.delimiter == "\\t") return '\t';
  const char c = w.delimiter.front();
  const bool taken = c == '"' || c == '\n' || c == '\r' || static_cast<unsigned char>(c) >= 0x80;
  if (w.delimiter.size() != 1 || taken)
    reject("--delimiter '{}': expected one character, such as ';' or '|', or the word tab", w.delimiter);
  return c;
}

csv_header header_in(const table_args& w) {
  if (w.header == "auto") return csv_header::automatic;
  return w.header == "yes" ? csv_header::present : csv_header::absent;
}

/// The columns that are listed as in a line of CSV, so that a name may have a comma in it.
std::vector<std::string> columns_in(const std::vector<std::string>& lists, std::string_view option) {
  std::vector<std::string> columns;
  csv_fields splitter(',');
  std::vector<std::string_view> names;
  for (const std::string& list : lists) {
    if (splitter.add(list) != csv_fields::record::whole)
      reject("{} '{}': expected double quotes around the whole of a name", option, list);
    splitter.list(names);
    columns.insert(columns.end(), names.begin(), names.end());
  }
  return columns;
}

/// 0: not given.
char decimal_in(const table_args& w) { return w.decimal == "auto" ? '\0' : w.decimal == "comma" ? ',' : '.'; }

/// Tests each epoch, unless it is said how often, where something depends on tests.
interval evaluations_of(const train_args& w) {
  if (!w.evaluate_every.empty()) return parse_interval(w.evaluate_every);
  const bool needed = w.validation > 0 || w.run.patience > 0 || w.keep_weights == "best" ||
                      (!w.run.stop_when.empty() && asks_for_tests(w.run.stop_when));
  return needed ? interval{.epochs = 1} : interval{};
}

/// The default for a pipeline, which without micro-batches keeps only one device busy at a time.
constexpr std::size_t micro_batches_of_a_pipeline = 8;

/// How a model spans the devices of its worker, of which there are so many. `option` names more.
void read_span(const train_args& w, std::size_t each, const char* option, training_options& o) {
  if (w.span.any()) require_several(w.span, each, option);
  if (w.span.replicate && w.run.batch < each)
    reject("--replicate: a batch of {} over {} devices leaves some without a sample; raise --batch",
           w.run.batch, each);
  if (w.micro_batches && *w.micro_batches > w.run.batch)
    reject("--micro-batches {} of a batch of {}: some would be empty", *w.micro_batches, w.run.batch);
  o.micro_batches = w.micro_batches.value_or(
      each > 1 && w.span.pipeline ? std::min(micro_batches_of_a_pipeline, w.run.batch) : 1);
}

void read_workers_elsewhere(const train_args& w, training_options& o) {
  if (w.remote.serve && w.devices != "cpu:0")
    reject("--devices: workers bring them ('mailgrad join --devices'); leave it out");
  if (w.remote.processes > 0 && w.workers > 0 && w.workers != w.remote.processes)
    reject("--workers {}: --processes {} says how many there are; leave it out", w.workers,
           w.remote.processes);
  if (names_gpu(w.parameters))
    reject("--parameters: with workers of other processes the weights lie on the host; leave it out");
  if (w.parameters != "host") o.parameters = read_places(w.parameters); // "cpu" is the host as well
  if (w.remote.processes > 0)
    require_precision(read_devices(w.devices), parse_product_precision(w.precision));
  parse_wire_format(w.remote.wire); // refuses what is none
  const std::uint32_t workers = workers_elsewhere(w);
  if (w.remote.slots > 0 && w.remote.slots < workers)
    reject("--slots {}: fewer than the {} of --workers; give at least as many, or leave it out",
           w.remote.slots, workers);
  o.slots = w.remote.slots;
  o.waits_for_workers = wait_when_alone(w.remote);
  const std::uint32_t each = devices_elsewhere(w);
  if (each > 1 && !w.span.any())
    reject("--devices-per-worker {}: say --replicate or --pipeline, so that a worker's model spans them",
           each);
  if (w.remote.processes > 0 && w.span.any() && device_count(w.devices) % workers != 0)
    reject("--processes {}: {} devices cannot be shared out to so many workers; name so many devices, or a "
           "multiple",
           workers, device_count(w.devices));
  read_span(w, each, w.remote.processes > 0 || w.remote.launch ? "--devices" : "--devices-per-worker", o);
  o.devices.clear();
  for (std::uint32_t d = 0; d < each * workers; ++d) o.devices.push_back({device_kind::cpu, d % each});
  o.workers = workers;
  o.run_ahead.reset();   // weights on the host let nobody run ahead
  o.elsewhere.emplace(); // what they compute on they say when they come
  if (has_hogwild(parse_policy_schedule(w.run.policy, std::max(workers, o.slots))))
    reject("--policy hogwild: workers of other processes share no memory; take another policy");
}

void read_workers(const train_args& w, training_options& o) {
  if (w.remote.any() && !w.run.delays.empty())
    reject("--delays: those of workers in other processes cannot be prescribed; leave it out");
  if (!w.remote.any() && w.simulated == 0 && w.remote.wire != "float32")
    reject("--wire: gradients of one process do not travel; leave it out, or start workers by --processes");
  if (!w.remote.any() && w.remote.sends_batches)
    reject(
        "--send-batches: workers of this process have them; leave it out, or start workers by --processes");
  if (w.remote.any()) return read_workers_elsewhere(w, o);
  if (w.simulated > 0) {
    o.workers = w.simulated;
    return;
  }
  o.devices = read_devices(w.devices);
  if (w.parameters != "host") o.parameters = read_places(w.parameters); // "cpu" is the host as well
  o.workers = w.workers > 0 ? w.workers : w.span.any() ? 1 : static_cast<std::uint32_t>(o.devices.size());
  const std::size_t each = o.devices.size() / o.workers;
  if (each > 1 && !w.span.any())
    reject("--workers {} for {} devices: say --replicate or --pipeline, so that a worker's model spans its "
           "devices",
           o.workers, o.devices.size());
  if (o.devices.size() % o.workers == 0) read_span(w, each, "--devices", o);
}

constexpr const char* rule_by_default = "adam";
constexpr const char* policy_by_default = "sync"; ///< on devices that nobody named
constexpr std::uint32_t most_in_turns = 4096;     ///< workers whose devices are written out

/// How many devices the workers have. With a model that spans devices each worker has an equal share.
std::size_t devices_wanted(const train_args& w, std::size_t there) {
  const std::size_t workers = std::max(w.workers, w.remote.processes);
  if (workers == 0 || workers > most_in_turns) return there; // what cannot be shared out is refused later
  if (!w.span.any()) return workers;
  return there < workers ? there : there / workers * workers;
}

std::string list_for(const train_args& w, const std::vector<device>& there) {
  std::vector<device> all;
  for (std::size_t d = 0; d < devices_wanted(w, there.size()); ++d) all.push_back(there[d % there.size()]);
  return names_of(all);
}

/// "adam at 0.001 (default)", "adam (default) at 0.01", "sgd at 0.001 (its default)", "sgd at 0.1"
std::string format_rule(const train_args& w, const optimizer_options& o) {
  const double rate = base_learning_rate(o);
  if (w.usual_rule && o.learning_rate) return fmt::format("{} (default) at {:g}", name(o), rate);
  return fmt::format("{} at {:g}{}", name(o), rate,
                     o.learning_rate ? ""
                     : w.usual_rule  ? " (default)"
                                     : " (its default)");
}

std::size_t devices_of_each(const train_args& w) {
  if (w.remote.any()) return devices_elsewhere(w);
  return w.span.any() ? std::max(1U, device_count(w.devices) / std::max(1U, w.workers)) : 1;
}

/// Of devices and places that this machine may not have, or no longer. The host is the device that "cpu"
/// names.
std::vector<device> named_devices(const std::string& list) {
  std::vector<device> all;
  for (const std::string& name : split_devices(list))
    all.push_back(name == "host" ? device{} : parse_device(name));
  return all;
}

constexpr std::uint64_t longest = 1'000'000; ///< of any unit, so that nanoseconds do not overflow

} // namespace

void apply(const table_args& w, open_options& o) {
  csv_options& c = o.csv;
  c.header = header_in(w);
  c.delimiter = delimiter_in(w);
  c.decimal = decimal_in(w);
  c.categories = columns_in(w.categories, "--categories");
  c.left_out = columns_in(w.left_out, "--leave-out");
  if (w.label == "first" || w.label == "last") {
    c.label = w.label == "first" ? csv_label::first : csv_label::last;
  } else if (!w.label.empty()) {
    c.label = csv_label::named;
    c.label_column = w.label;
  }
  if (w.missing != "refuse") c.missing = w.missing == "drop" ? missing_values::drop : missing_values::mean;
  o.features = w.features;
  if (w.pictures != "auto")
    o.channels = w.pictures == "grey" ? picture_channels::grey : picture_channels::rgb;
  if (!w.test_fraction) return;
  if (!(*w.test_fraction > 0 && *w.test_fraction < 1))
    reject("--test-fraction: expected a number between 0 and 1, neither of them");
  o.files.train_fraction = 1 - *w.test_fraction;
}

row_options rows_as(const table_args& w, table_layout table) {
  return {std::move(table), header_in(w), decimal_in(w), delimiter_in(w)};
}

std::uint32_t workers_elsewhere(const train_args& w) {
  return w.remote.serve ? std::max(w.workers, 1U) : w.remote.processes;
}

std::uint32_t devices_elsewhere(const train_args& w) {
  if (w.remote.serve) return w.remote.devices;
  return w.span.any() ? std::max(1U, device_count(w.devices) / w.remote.processes) : 1;
}

std::vector<std::string> plugins_elsewhere(const train_args& w) {
  const std::string file = w.optimizer.substr(0, w.optimizer.find(':'));
  if (w.run.local_steps == 0 || !names_a_plugin(file)) return {};
  return {file};
}

worker_args local_workers_of(const train_args& w) {
  const std::vector<device> all = read_devices(w.devices);
  const std::size_t each = devices_elsewhere(w);
  std::vector<std::string> lists;
  for (std::size_t d = 0; d + each <= all.size(); d += each)
    lists.push_back(names_of(std::span(all).subspan(d, each)));
  return {std::move(lists), plugins_elsewhere(w), w.remote.sends_batches ? "" : w.data, w.data_limit};
}

open_options opened_as(const train_args& w) {
  open_options o;
  if (w.task != "automatic") o.task = w.task == "regression" ? label_kind::numbers : label_kind::classes;
  if (w.split == "time") o.ratings.order = rating_order::by_time;
  o.window = w.window;
  o.limit.bytes = w.data_limit << 30;
  o.seed = w.run.seed;
  o.validation = w.validation;
  apply(w.table, o);
  return o;
}

training_options understood(const train_args& w) {
  training_options o = w.run;
  o.precision = parse_product_precision(w.precision);
  read_workers(w, o);
  // Refused here, in terms of the options, before placement finds a variable that several devices read.
  const auto policies = parse_policy_schedule(o.policy, std::max(o.workers, w.remote.slots));
  if (w.span.replicate && has_hogwild(policies))
    reject("--replicate: under hogwild only one device of a worker may read a variable; take another "
           "--policy, or a worker for each device");
  o.optimizer.rule = parse_optimizer(w.optimizer).rule;
  o.optimizer.schedule = parse_schedule(w.schedule);
  o.outer.rule = parse_optimizer(w.outer_optimizer).rule;
  if (!o.outer.learning_rate && std::holds_alternative<sgd_options>(o.outer.rule)) o.outer.learning_rate = 1;
  o.model_name = w.model;
  o.start_whole = w.load_strict == "yes";
  o.metrics = w.outputs.metrics;
  o.tensorboard = w.outputs.tensorboard;
  o.metrics_every = parse_interval(w.metrics_every);
  o.evaluate_every = evaluations_of(w);
  o.when_diverged = w.on_divergence == "go-on" ? on_divergence::go_on : on_divergence::end;
  const bool best = w.keep_weights == "best" || (w.keep_weights.empty() && o.patience > 0);
  o.keep = best ? kept_weights::best : kept_weights::last;
  o.text.seed = o.seed;
  o.checkpoints = understood(w.checkpoints);
  o.all_reduce = w.remote.all_reduce;
  o.trace_events = w.outputs.trace.empty() ? 0 : traced_events;
  return o;
}

checkpoint_options understood(const checkpoint_args& w) {
  checkpoint_options o;
  o.folder = w.folder;
  o.keep = w.keep;
  std::uint64_t count = 0;
  const auto [end, wrong] = std::from_chars(w.every.data(), w.every.data() + w.every.size(), count);
  const std::string_view unit(end, static_cast<std::size_t>(w.every.data() + w.every.size() - end));
  const std::int64_t seconds = unit == "s" ? 1 : unit == "min" ? 60 : unit == "h" ? 3600 : 0;
  const bool timed = seconds > 0;
  if (wrong != std::errc() || count == 0 || (!timed && !unit.empty()) || (timed && count > longest))
    reject("--checkpoint-every: '{}' is no interval; a number of mini-batches, as 500, or a time, as 30s, "
           "10min or 2h",
           w.every);
  if (timed)
    o.every = std::chrono::seconds(static_cast<std::int64_t>(count) * seconds);
  else
    o.every_steps = count;
  return o;
}

training_options with_first_weights(const train_args& w) {
  training_options o = understood(w);
  if (!w.load.empty()) o.start = std::make_shared<const saved_weights>(load_weights(w.load));
  return o;
}

run_inputs inputs_of(const train_args& w, const recording* replay) {
  return {w.model, w.data, w.run.policy, w.run.cure, {w.optimizer, w.outer_optimizer}, replay, w.load};
}

train_args open_args() {
  train_args w;
  w.optimizer = rule_by_default;
  w.devices.clear();
  return w;
}

train_args with_usual_choices(train_args w, const CLI::App& parser) {
  w.usual_rule = parser.count("--optimizer") == 0;
  w.usual_batch = parser.count("--batch") == 0;
  w.usual_devices = w.devices.empty();
  if (!w.usual_devices) return w;
  w.devices = list_for(w, usual_devices(cuda::runtime::find_gpus(), usable_core_devices()));
  w.usual_policy = parser.count("--policy") + parser.count("--cure") == 0;
  if (w.usual_policy) w.run.policy = policy_by_default;
  return w;
}

void fit_usual_batch(const train_args& w, training_options& o, std::size_t samples) {
  if (!w.usual_batch || samples == 0 || samples >= o.batch) return;
  o.batch =
      std::max<std::size_t>(1, samples / std::max<std::size_t>(1, o.workers ? o.workers : o.devices.size()));
  for (std::vector<std::string>* words : {&o.words, &o.args_to_resume}) {
    option_args named(std::move(*words));
    named.set(fmt::format("--batch={}", o.batch));
    *words = named.take();
  }
}

train_args with_usual_cores(train_args w) {
  w.devices = list_for(w, usable_core_devices());
  return w;
}

std::vector<device> usual_devices(const cuda::runtime::found_gpus& found, std::vector<device> cores) {
  std::vector<device> gpus;
  for (std::uint32_t i = 0; i < found.gpus.size(); ++i)
    if (found.gpus[i].why_unknown.empty() && !found.gpus[i].is_too_old())
      gpus.push_back({device_kind::cuda, i});
  return gpus.empty() ? std::move(cores) : gpus;
}

std::string format_choices(const train_args& w, const training_options& o) {
  std::string text = format_rule(w, o.optimizer);
  if (o.batch < w.run.batch) text += fmt::format(", {} samples a mini-batch since there are so few", o.batch);
  if (!w.usual_devices) return text;
  return fmt::format("{}, {}on {}", text, w.usual_policy ? w.run.policy + " (default) " : "",
                     names_gpu(w.devices) ? w.devices : cores_of_process().in_words());
}

memory_needs memory_needs_of(const train_args& w, bool is_replay) {
  memory_needs needs{{}, named_devices(w.parameters), w.run.shards, w.precision, is_replay};
  if (!w.remote.serve) needs.devices = named_devices(w.devices);
  return needs;
}

void require_asked_places(const train_args& w, const option_args& given, const std::string& whose,
                          const remedy_function& remedy) {
  std::string options, line;
  const auto ask = [&](const char* option, const char* what, const std::string& list,
                       std::vector<device> (*read)(const std::string&)) {
    if (given.has(option) || !names_gpu(list)) return;
    try {
      read(list);
    } catch (const device_error& e) {
      if (line.empty()) line = fmt::format("{} has its {} on {}: {}", whose, what, list, e.what());
      options += (options.empty() ? "" : " and ") + std::string(option);
    }
  };
  ask("--parameters", "weights", w.parameters, read_places);
  if (!w.remote.serve) ask("--devices", "workers", w.devices, read_devices);
  if (!line.empty())
    throw device_error(world_errc::no_such_device, fmt::format("{}; {}", line, remedy(options)));
}

std::string remedy_with_cores(const train_args& w) {
  const std::vector<device> all = named_devices(w.devices);
  const std::size_t each = devices_of_each(w);
  std::vector<device> cores;
  for (std::size_t first = 0; first < all.size(); first += each) {
    // A model needs different cores, while workers may share one.
    const auto part = std::span(all).subspan(first, std::min(each, all.size() - first));
    std::vector<device> own(part.begin(), part.end());
    for (device& d : own) {
      if (d.kind != device_kind::cuda) continue;
      device free;
      while (std::ranges::find(own, free) != own.end()) ++free.index;
      d = free;
    }
    cores.insert(cores.end(), own.begin(), own.end());
  }
  return fmt::format("on cores it goes on with --devices {}{}", names_of(cores),
                     w.precision == "float32" ? "" : " --precision float32");
}

} // namespace mailgrad
