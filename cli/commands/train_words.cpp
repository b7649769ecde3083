#include <mailgrad/cli/commands/train_words.hpp>
#include <mailgrad/cli/device_option.hpp>

#include <mailgrad/engine/account/early_stop.hpp>
#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>
#include <mailgrad/optim/plugin_library.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace mailgrad {

namespace {

/// Tests each epoch, unless it is said how often, where something depends on tests.
interval evaluations_of(const train_words& w) {
  if (!w.evaluate_every.empty()) return parse_interval(w.evaluate_every);
  const bool needed = w.validation > 0 || w.run.patience > 0 || w.keep_weights == "best" ||
                      (!w.run.stop_when.empty() && asks_for_tests(w.run.stop_when));
  return needed ? interval{.epochs = 1} : interval{};
}

/// The default for a pipeline, which without micro-batches keeps only one device busy at a time.
constexpr std::size_t micro_batches_of_a_pipeline = 8;

/// How a model spans the devices of its worker, of which there are so many. `option` names more.
void read_span(const train_words& w, std::size_t each, const char* option, training_options& o) {
  if (w.span.any()) require_several(w.span, each, option);
  if (w.span.replicate && w.run.batch < each)
    throw std::invalid_argument(
        fmt::format("--replicate: a batch of {} over {} devices leaves some without a sample; raise --batch",
                    w.run.batch, each));
  if (w.micro_batches && *w.micro_batches > w.run.batch)
    throw std::invalid_argument(fmt::format("--micro-batches {} of a batch of {}: some would be empty",
                                            *w.micro_batches, w.run.batch));
  o.micro_batches = w.micro_batches.value_or(
      each > 1 && w.span.pipeline ? std::min(micro_batches_of_a_pipeline, w.run.batch) : 1);
}

/// "cpu" is the host as well.
void read_parameters(const train_words& w, training_options& o) {
  if (w.parameters == "host") return;
  o.parameters = read_places(w.parameters);
}

/// Workers of other processes bring their devices.
void read_workers_elsewhere(const train_words& w, training_options& o) {
  if (w.remote.serve && w.devices != "cpu:0")
    throw std::invalid_argument("--devices: workers bring them ('mailgrad join --devices'); leave it out");
  if (w.remote.processes > 0 && w.workers > 0 && w.workers != w.remote.processes)
    throw std::invalid_argument(fmt::format(
        "--workers {}: --processes {} says how many there are; leave it out", w.workers, w.remote.processes));
  if (names_card(w.parameters))
    throw std::invalid_argument(
        "--parameters: with workers of other processes the weights lie on the host; leave it out");
  read_parameters(w, o);
  if (w.remote.processes > 0)
    require_precision(read_devices(w.devices), parse_product_precision(w.precision));
  parse_wire_format(w.remote.wire); // refuses what is none
  const std::uint32_t workers = workers_elsewhere(w);
  if (w.remote.seats > 0 && w.remote.seats < workers)
    throw std::invalid_argument(
        fmt::format("--seats {}: fewer than the {} of --workers; give at least as many, or leave it out",
                    w.remote.seats, workers));
  o.seats = w.remote.seats;
  o.waits_for_workers = wait_when_alone(w.remote);
  const std::uint32_t each = devices_elsewhere(w);
  if (each > 1 && !w.span.any())
    throw std::invalid_argument(fmt::format(
        "--devices-per-worker {}: say --replicate or --pipeline, so that a worker's model spans them", each));
  if (w.remote.processes > 0 && w.span.any() && device_count(w.devices) % workers != 0)
    throw std::invalid_argument(
        fmt::format("--processes {}: {} devices cannot be shared out to so many workers; name so many "
                    "devices, or a multiple",
                    workers, device_count(w.devices)));
  read_span(w, each, w.remote.processes > 0 || w.remote.launch ? "--devices" : "--devices-per-worker", o);
  o.devices.clear();
  for (std::uint32_t d = 0; d < each * workers; ++d) o.devices.push_back({device_kind::cpu, d % each});
  o.workers = workers;
  o.run_ahead.reset();   // weights on the host let nobody run ahead
  o.elsewhere.emplace(); // what they compute on they say when they come
  if (has_hogwild(parse_policy_schedule(w.run.policy, std::max(workers, o.seats))))
    throw std::invalid_argument(
        "--policy hogwild: workers of other processes share no memory; take another policy");
}

void read_workers(const train_words& w, training_options& o) {
  if (w.remote.any() && !w.run.delays.empty())
    throw std::invalid_argument(
        "--delays: those of workers in other processes cannot be prescribed; leave it out");
  if (!w.remote.any() && w.simulated == 0 && w.remote.wire != "float32")
    throw std::invalid_argument(
        "--wire: gradients of one process do not travel; leave it out, or start workers by --processes");
  if (!w.remote.any() && w.remote.sends_batches)
    throw std::invalid_argument(
        "--send-batches: workers of this process have them; leave it out, or start workers by --processes");
  if (w.remote.any()) return read_workers_elsewhere(w, o);
  if (w.simulated > 0) {
    o.workers = w.simulated;
    return;
  }
  o.devices = read_devices(w.devices);
  read_parameters(w, o);
  o.workers = w.workers > 0 ? w.workers : w.span.any() ? 1 : static_cast<std::uint32_t>(o.devices.size());
  const std::size_t each = o.devices.size() / o.workers;
  if (each > 1 && !w.span.any())
    throw std::invalid_argument(fmt::format("--workers {} for {} devices: say --replicate or --pipeline, so "
                                            "that a worker's model spans its devices",
                                            o.workers, o.devices.size()));
  if (o.devices.size() % o.workers == 0) read_span(w, each, "--devices", o);
}

/// Refuses this here, in terms of the options, before placement finds a variable that several devices read.
void require_spanning_policies(const train_words& w, const std::vector<scheduled_policy>& policies) {
  if (w.span.replicate && has_hogwild(policies))
    throw std::invalid_argument(
        "--replicate: under hogwild only one device of a worker may read a variable; take another "
        "--policy, or a worker for each device");
}

} // namespace

std::uint32_t workers_elsewhere(const train_words& w) {
  return w.remote.serve ? std::max(w.workers, 1U) : w.remote.processes;
}

std::uint32_t devices_elsewhere(const train_words& w) {
  if (w.remote.serve) return w.remote.devices;
  return w.span.any() ? std::max(1U, device_count(w.devices) / w.remote.processes) : 1;
}

std::vector<std::string> plugins_elsewhere(const train_words& w) {
  const std::string file = w.optimizer.substr(0, w.optimizer.find(':'));
  if (w.run.local_steps == 0 || !names_a_plugin(file)) return {};
  return {file};
}

worker_words local_workers_of(const train_words& w) {
  const std::vector<std::string> all = device_names(w.devices);
  const std::size_t each = devices_elsewhere(w);
  std::vector<std::string> lists;
  for (std::size_t d = 0; d + each <= all.size(); d += each)
    lists.push_back(fmt::format("{}", fmt::join(all.begin() + static_cast<std::ptrdiff_t>(d),
                                                all.begin() + static_cast<std::ptrdiff_t>(d + each), ",")));
  return {std::move(lists), plugins_elsewhere(w), w.remote.sends_batches ? "" : w.data, w.data_limit};
}

open_options opened_as(const train_words& w) {
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

training_options understood(const train_words& w) {
  training_options o = w.run;
  o.precision = parse_product_precision(w.precision);
  read_workers(w, o);
  require_spanning_policies(w, parse_policy_schedule(o.policy, std::max(o.workers, w.remote.seats)));
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

training_options with_first_weights(const train_words& w) {
  training_options o = understood(w);
  if (!w.load.empty()) o.start = std::make_shared<const saved_weights>(load_weights(w.load));
  return o;
}

run_inputs inputs_of(const train_words& w, const recording* replay) {
  return {w.model, w.data, w.run.policy, w.run.cure, {w.optimizer, w.outer_optimizer}, replay, w.load};
}

} // namespace mailgrad
