#include <mailgrad/cli/train_words.hpp>

#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <algorithm>
#include <limits>

namespace mailgrad {

namespace {

/// Of an actor: 16 MB, and about an hour of LeNet.
constexpr std::size_t traced_events = 250'000;

constexpr std::uint64_t most_actors =
    std::numeric_limits<std::uint32_t>::max(); // ranks and shards have 32 bits

constexpr std::uint64_t most_gibibytes = std::uint64_t{1} << 20;

std::string joined(const auto& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

void add_what(CLI::App& parser, train_words& w) {
  parser
      .add_option("--model", w.model,
                  joined(built_in_models()) + ", with settings as listed below, or a JSON file of layers")
      ->capture_default_str()
      ->group("What to train");
  parser
      .add_option("--data", w.data,
                  "fashion-mnist, or a folder or file of IDX, CIFAR, CSV, libsvm data, ratings or text")
      ->capture_default_str()
      ->group("What to train");
  parser
      .add_option("--task", w.task,
                  "classification or regression: what to learn from the labels; automatic: what such files "
                  "usually hold")
      ->check(one_of({"automatic", "classification", "regression"}))
      ->capture_default_str()
      ->group("What to train");
  parser
      .add_option("--window", w.window,
                  "Of a text: symbols a model reads at a time; each is asked for the next one")
      ->check(whole_number(1))
      ->capture_default_str()
      ->group("What to train");
  parser
      .add_option("--split", w.split,
                  "Ratings to test on: random, a fifth of them, or time, the latest fifth")
      ->check(one_of({"random", "time"}))
      ->capture_default_str()
      ->group("What to train");
  parser
      .add_option("--data-limit", w.data_limit,
                  "GiB of memory that the samples of a file may take; a packed or sparse file takes many "
                  "times its size")
      ->check(whole_number(1, most_gibibytes))
      ->capture_default_str()
      ->group("What to train");
  parser.add_option("--batch", w.batch, "Samples in a mini-batch of one worker")
      ->check(whole_number(1))
      ->capture_default_str()
      ->group("What to train");
  auto* epochs =
      parser.add_option("--epochs", w.epochs, "Passes over the training set, all workers together")
          ->check(whole_number(1))
          ->capture_default_str()
          ->group("What to train");
  parser.add_option("--steps", w.steps, "Mini-batches, all workers together, instead of --epochs")
      ->check(whole_number(1))
      ->excludes(epochs)
      ->group("What to train");
}

void add_how(CLI::App& parser, train_words& w) {
  parser
      .add_option(
          "--devices", w.devices,
          "One worker for each, unless a model spans them: cpu:0,cpu:1 ('mailgrad devices' lists them)")
      ->capture_default_str()
      ->group("How to run it");
  parser
      .add_option("--policy", w.policy,
                  "How workers keep together, as listed below; several in turn as \"async, sync@1000\"")
      ->capture_default_str()
      ->group("How to run it");
  parser
      .add_option("--cure", w.cure,
                  "Of staleness, as listed below: none, or what a stale gradient counts with")
      ->capture_default_str()
      ->group("How to run it");
  parser.add_option("--shards", w.shards, "Parameter actors, each with an equal part of the weights")
      ->check(whole_number(1, most_actors))
      ->capture_default_str()
      ->group("How to run it");
  parser.add_option("--seed", w.seed, "Of first weights, order of samples and dropout")
      ->check(whole_number(0))
      ->capture_default_str()
      ->group("How to run it");
}

void add_spanning(CLI::App& parser, train_words& w) {
  const std::string group = "Models over several devices";
  add_spanning_flags(parser, w.span, group);
  parser
      .add_option("--workers", w.workers,
                  "Replicas of such a model, among which the devices are shared out; 1 by default")
      ->check(whole_number(1, most_actors))
      ->group(group);
  parser
      .add_option(
          "--micro-batches", w.micro_batches,
          "Parts of a batch that follow each other through the devices of a worker; by default 8 of a "
          "--pipeline, 1 of --replicate")
      ->check(whole_number(1))
      ->group(group);
}

void add_optimizer(CLI::App& parser, train_words& w) {
  parser
      .add_option("--optimizer", w.optimizer,
                  joined(optimizer_names()) +
                      ", or a plug-in, ./libmine.so; with settings: adam:beta1=0.8,epsilon=1e-6")
      ->capture_default_str()
      ->group("Optimiser");
  parser.add_option("--lr", w.learning_rate, "Learning rate; by default that of the optimiser, listed below")
      ->check(number())
      ->group("Optimiser");
  parser
      .add_option("--schedule", w.schedule,
                  "constant, step:every=500,factor=0.1 or cosine:total=1000,warmup=100")
      ->capture_default_str()
      ->group("Optimiser");
  parser.add_option("--weight-decay", w.weight_decay, "Decoupled: weights shrink by lr * this in each step")
      ->check(number())
      ->group("Optimiser");
  parser.add_option("--l2", w.l2, "In the loss: the gradient grows by this * weights")
      ->check(number())
      ->group("Optimiser");
  parser.add_option("--clip-norm", w.clip_norm, "Largest global norm of a worker's gradient; 0: any")
      ->check(number())
      ->group("Optimiser");
}

void add_local_steps(CLI::App& parser, train_words& w) {
  auto* steps = parser
                    .add_option("--local-steps", w.local_steps,
                                "Steps a worker takes by itself before the shards get what they have moved")
                    ->check(whole_number(1))
                    ->group("Local steps");
  parser
      .add_option(
          "--outer-optimizer", w.outer_optimizer,
          "Of the shards, that takes such differences for gradients; --optimizer is then the worker's. "
          "DiLoCo: nesterov; by workers that do not wait: delayed-nesterov:period=N")
      ->capture_default_str()
      ->needs(steps)
      ->group("Local steps");
  parser
      .add_option("--outer-lr", w.outer_learning_rate,
                  "Its learning rate; with sgd 1 by default, which averages models")
      ->check(number())
      ->needs(steps)
      ->group("Local steps");
}

void add_outputs(CLI::App& parser, train_words& w) {
  output_paths& paths = w.outputs;
  parser
      .add_option("--report", paths.report,
                  "Write what the run did to this file, as one JSON object; -: to standard output, and the "
                  "summary to "
                  "standard error; so with the next two")
      ->check(file_name())
      ->type_name("FILE")
      ->group("Output");
  parser
      .add_option("--staleness-csv", paths.staleness_csv,
                  "Write how often each gap occurred, a line for each shard, worker and gap")
      ->check(file_name())
      ->type_name("FILE")
      ->group("Output");
  parser
      .add_option("--trace", paths.trace,
                  "Write what each actor did and waited for, as a timeline for ui.perfetto.dev; the first " +
                      std::to_string(traced_events) + " events of each")
      ->check(file_name())
      ->type_name("FILE")
      ->group("Output");
  parser
      .add_option("--sample-gap", w.sample_gap,
                  "Compare one of so many gradients of a worker with a fresh one of its batch, which costs a "
                  "step: how far the weights had moved, and the cosine; 0: none. Not in hogwild")
      ->check(whole_number(0))
      ->capture_default_str()
      ->group("Output");
  parser
      .add_option("--record", paths.record,
                  "Write the order of all gradients to this file, for 'mailgrad replay'; not for hogwild")
      ->check(file_name())
      ->type_name("FILE")
      ->group("Output");
  parser
      .add_option("--sample-length", w.sample_length,
                  "Of a text: symbols that the trained model writes at the end; 0: none")
      ->check(whole_number(0))
      ->capture_default_str()
      ->group("Output");
  parser
      .add_option("--temperature", w.temperature,
                  "Of what it writes: 1 draws symbols as it expects them, 0 takes the likeliest")
      ->check(number(0, 1000))
      ->capture_default_str()
      ->group("Output");
  parser.add_flag("--quiet", w.quiet, "No progress, only the summary")
      ->disable_flag_override()
      ->group("Output");
}

/// A pipeline without micro-batches would keep one device at work at a time.
constexpr std::size_t micro_batches_of_a_pipeline = 8;

void read_workers(const train_words& w, training_options& o) {
  o.devices = read_devices(w.devices);
  o.workers = w.workers > 0 ? w.workers : w.span.any() ? 1 : static_cast<std::uint32_t>(o.devices.size());
  const std::size_t each = o.devices.size() / o.workers;
  if (w.span.any() && o.devices.size() % o.workers == 0) require_several(w.span, each);
  if (each > 1 && !w.span.any())
    throw std::invalid_argument(
        "--workers " + std::to_string(o.workers) + " for " + std::to_string(o.devices.size()) +
        " devices: say --replicate or --pipeline, so that a worker's model spans its devices");
  if (w.span.replicate && w.batch < each)
    throw std::invalid_argument("--replicate: a batch of " + std::to_string(w.batch) + " over " +
                                std::to_string(each) +
                                " devices leaves some without a sample; raise --batch");
  if (w.micro_batches && *w.micro_batches > w.batch)
    throw std::invalid_argument("--micro-batches " + std::to_string(*w.micro_batches) + " of a batch of " +
                                std::to_string(w.batch) + ": some would be empty");
  o.micro_batches = w.micro_batches.value_or(
      each > 1 && w.span.pipeline ? std::min(micro_batches_of_a_pipeline, w.batch) : 1);
}

/// Said by the words that lead there, before placement finds a variable that several devices read.
void require_spanning_policies(const train_words& w, const std::vector<scheduled_policy>& policies) {
  if (w.span.replicate && has_hogwild(policies))
    throw std::invalid_argument(
        "--replicate: under hogwild only one device of a worker may read a variable; take another "
        "--policy, or a worker for each device");
}

} // namespace

void add_options(CLI::App& parser, train_words& w) {
  add_what(parser, w);
  add_how(parser, w);
  add_spanning(parser, w);
  add_optimizer(parser, w);
  add_local_steps(parser, w);
  add_outputs(parser, w);
}

open_options opened_as(const train_words& w) {
  open_options o;
  if (w.task != "automatic") o.task = w.task == "regression" ? label_kind::numbers : label_kind::classes;
  if (w.split == "time") o.ratings.order = rating_order::by_time;
  o.window = w.window;
  o.limit.bytes = w.data_limit << 30;
  return o;
}

training_options understood(const train_words& w) {
  training_options o;
  read_workers(w, o);
  require_spanning_policies(w, parse_policy_schedule(w.policy, o.workers));
  o.policy = w.policy;
  o.cure = w.cure;
  o.optimizer = parse_optimizer(w.optimizer);
  o.optimizer.learning_rate = w.learning_rate;
  o.optimizer.schedule = parse_schedule(w.schedule);
  o.optimizer.weight_decay = w.weight_decay;
  o.optimizer.l2 = w.l2;
  o.optimizer.clip_norm = w.clip_norm;
  o.local_steps = w.local_steps;
  o.outer = parse_optimizer(w.outer_optimizer);
  o.outer.learning_rate = w.outer_learning_rate;
  if (!w.outer_learning_rate && std::holds_alternative<sgd_options>(o.outer.rule)) o.outer.learning_rate = 1;
  o.batch = w.batch;
  o.epochs = w.epochs;
  o.steps = w.steps;
  o.shards = w.shards;
  o.seed = w.seed;
  o.sample_gap = w.sample_gap;
  o.text = {w.sample_length, w.temperature, w.seed};
  o.trace_events = w.outputs.trace.empty() ? 0 : traced_events;
  return o;
}

} // namespace mailgrad
