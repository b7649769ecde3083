#include <mailgrad/cli/commands/train_words.hpp>
#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/graph/models/built_in.hpp>

#include <fmt/format.h>

#include <limits>
#include <string>

// All options of `mailgrad train`. Those that say how to run it, and when to end, are described here; files
// beside this one have the others.

// The options of `mailgrad train` that say what to train: a model, and on which data.

// The options of `mailgrad train` that say how the weights are updated: by the shards, and by workers that
// take local steps.

// The options of `mailgrad train` that say what it writes: files at the end, lines during the run, and text.

namespace mailgrad {

namespace {

void add_record(CLI::App& parser, train_words& w);

constexpr std::uint64_t most_actors =
    std::numeric_limits<std::uint32_t>::max(); // ranks and shards have 32 bits

void add_weight_options(CLI::App& parser, train_words& w) {
  auto* parameters =
      parser
          .add_option("--parameters", w.parameters,
                      "Where the weights lie and are updated: the host, a card such as cuda:0, "
                      "or several places for the shards in turn, such as host,cuda:0")
          ->capture_default_str()
          ->group("How to run it");
  parser
      .add_option("--run-ahead", w.run_ahead,
                  "Steps that a worker begins before the one under way has ended, 0 or 1; left out, 0 under "
                  "policies that look at time or at who comes first, and else 1")
      ->check(whole_number(0, most_run_ahead))
      ->needs(parameters)
      ->group("How to run it");
}

void add_devices(CLI::App& parser, train_words& w) {
  parser
      .add_option(
          "--devices", w.devices,
          "The devices to train on, such as cpu:0,cpu:1, or lanes of a card, cuda:0,cuda:0/1; each runs one "
          "worker, unless a model spans them. By default each card, or else each core that this process may "
          "use. 'mailgrad devices' lists them")
      ->capture_default_str()
      ->group("How to run it");
  if (!w.remote.serve) add_weight_options(parser, w); // else the weights lie on the host
  parser
      .add_option(
          "--precision", w.precision,
          "What matrix products on cards round their operands to: float32 does not, tf32 and bfloat16 "
          "are several times as fast; weights, gradients and sums are float32 in any case")
      ->check(one_of(product_precision_names()))
      ->capture_default_str()
      ->group("How to run it");
}

/// Where help lists models, policies and the like: "as listed below", or in the help of which command.
std::string where_listed(const train_words& w) {
  return w.remote.serve ? "as 'mailgrad help train' lists" : "as listed below";
}

} // namespace

void add_delay_options(CLI::App& parser, train_words& w) {
  auto* delays = parser
                     .add_option("--delays", w.delays,
                                 "How long each step of a worker takes, by a law of the list below; a real "
                                 "worker idles when it has computed faster")
                     ->type_name("LAW")
                     ->group("How to run it");
  if (!w.delays.empty()) delays->capture_default_str();
  parser.add_option("--delays-seed", w.delays_seed, "Seed of these times")
      ->check(whole_number(0))
      ->capture_default_str()
      ->group("How to run it");
}

void add_policy_options(CLI::App& parser, train_words& w) {
  const bool is_open = w.devices.empty();
  auto* policy =
      parser
          .add_option("--policy", w.policy,
                      fmt::format("How closely the workers keep together, {}; several in turn as "
                                  "\"async, sync@1000\"{}",
                                  where_listed(w),
                                  is_open ? "; by default sync, but async with --devices or --cure" : ""))
          ->group("How to run it");
  if (!is_open) policy->capture_default_str();
  parser
      .add_option(
          "--cure", w.cure,
          fmt::format("How to treat stale gradients, {}; none applies them as they are", where_listed(w)))
      ->capture_default_str()
      ->group("How to run it");
  parser
      .add_option("--shards", w.shards, "Number of parameter actors, each with an equal part of the weights")
      ->check(whole_number(1, most_actors))
      ->capture_default_str()
      ->group("How to run it");
  parser
      .add_option(
          "--seed", w.seed,
          "Seed of the initial weights, the order of samples, the test part, dropout and sampled text")
      ->check(whole_number(0))
      ->capture_default_str()
      ->group("How to run it");
}

void add_divergence_option(CLI::App& parser, train_words& w, const std::string& group) {
  parser
      .add_option(
          "--on-divergence", w.on_divergence,
          "What happens when the loss stays above 1000 times that of the first step or of chance: end "
          "ends the run as diverged, go-on trains on; a loss that is no finite number ends it anyway")
      ->check(one_of({"end", "go-on"}))
      ->type_name("end|go-on")
      ->capture_default_str()
      ->group(group);
}

namespace {

void add_spanning(CLI::App& parser, train_words& w) {
  const std::string group = "Models over several devices";
  add_spanning_flags(parser, w.span, group);
  parser
      .add_option(
          "--workers", w.workers,
          "Number of workers, each with a replica of such a model on an equal share of the devices; 1 "
          "by default")
      ->check(whole_number(1, most_actors))
      ->group(group);
  parser
      .add_option(
          "--micro-batches", w.micro_batches,
          "Parts of a batch that pass through the devices of a worker one after the other; by default 8 "
          "with --pipeline, 1 with --replicate")
      ->check(whole_number(1))
      ->group(group);
}

void add_ending(CLI::App& parser, train_words& w) {
  const char* const group = "When to end";
  parser
      .add_option(
          "--evaluate-every", w.evaluate_every,
          "How often the weights are tested while the run goes on, on a thread of its own; no worker waits "
          "for it. By default never, or each epoch if one of the next options needs it")
      ->check(interval_text())
      ->type_name("N|TIME|epoch")
      ->group(group);
  parser
      .add_option(
          "--validation", w.validation,
          "The share of the training samples, such as 0.1, that is held out for these tests; the test "
          "data then stay unseen until the end. 0: the weights are tested on the test data")
      ->check(number(0, 1))
      ->capture_default_str()
      ->group(group);
  parser
      .add_option(
          "--stop-when", w.stop_when,
          "End early when a figure reaches a bound, such as \"loss<0.3\" or \"accuracy>=0.9, time_s>600\": "
          "any column of --metrics; loss, accuracy and rmse are those of the tests, or else loss is that of "
          "training")
      ->type_name("CONDITION")
      ->group(group);
  parser
      .add_option("--patience", w.patience,
                  "End early after so many tests in a row without a lower loss; 0: do not")
      ->check(whole_number(0))
      ->capture_default_str()
      ->group(group);
  parser
      .add_option("--keep-weights", w.keep_weights,
                  "The weights to test at the end and to save: last, those with which the run ends, or best, "
                  "those of the test with the lowest loss; by default best with --patience, else last")
      ->check(one_of({"last", "best"}))
      ->type_name("last|best")
      ->group(group);
  add_divergence_option(parser, w, group);
}

} // namespace

void add_options(CLI::App& parser, train_words& w) {
  add_data_options(parser, w);
  add_devices(parser, w);
  add_policy_options(parser, w);
  if (!w.remote.serve) add_delay_options(parser, w); // only workers of this process can be delayed
  add_spanning(parser, w);
  add_optimizer_options(parser, w);
  add_local_step_options(parser, w);
  add_checkpoint_options(parser, w.checkpoints, "Checkpoints");
  add_result_options(parser, w);
  add_record(parser, w);
  add_text_options(parser, w);
  add_live_options(parser, w.live, "Output");
  add_metrics_options(parser, w, "Output");
  add_ending(parser, w);
}

namespace {

constexpr std::uint64_t most_gibibytes = std::uint64_t{1} << 20;

} // namespace

void add_data_options(CLI::App& parser, train_words& w) {
  parser
      .add_option("--model", w.model,
                  fmt::format("The model: {}, with settings {}, or a JSON file of layers",
                              fmt::join(built_in_models(), ", "), where_listed(w)))
      ->capture_default_str()
      ->group("What to train");
  parser
      .add_option("--data", w.data,
                  "The data set: fashion-mnist, or a folder or file of IDX, CIFAR, CSV or libsvm data, of "
                  "ratings, of text or of numpy's arrays, or a folder of PNG or JPEG pictures for each class")
      ->capture_default_str()
      ->group("What to train");
  auto* load =
      parser
          .add_option("--load", w.load,
                      "Begin with the weights of this safetensors or .npz file, in place of those that the "
                      "seed draws")
          ->check(file_name())
          ->type_name("FILE")
          ->group("What to train");
  parser
      .add_option(
          "--load-strict", w.load_strict,
          "Whether --load refuses weights that do not fit every variable; no takes those that fit, and "
          "lists the rest")
      ->check(one_of({"yes", "no"}))
      ->needs(load)
      ->type_name("yes|no")
      ->capture_default_str()
      ->group("What to train");
  parser
      .add_option("--task", w.task,
                  "What to learn from the labels: classification or regression; automatic takes what such "
                  "files usually hold")
      ->check(one_of({"automatic", "classification", "regression"}))
      ->capture_default_str()
      ->group("What to train");
  parser
      .add_option("--window", w.window,
                  "For text: how many symbols the model reads at a time; it predicts the symbol after each")
      ->check(whole_number(1))
      ->capture_default_str()
      ->group("What to train");
  parser
      .add_option("--split", w.split,
                  "For ratings: the fifth of them to test on; random draws it, time takes the latest")
      ->check(one_of({"random", "time"}))
      ->capture_default_str()
      ->group("What to train");
  add_table(parser, w.table, "What to train");
  parser
      .add_option("--data-limit", w.data_limit,
                  "The most memory, in GiB, that the samples of a file may take; a packed or sparse file "
                  "takes many times its size")
      ->check(whole_number(1, most_gibibytes))
      ->capture_default_str()
      ->group("What to train");
  parser.add_option("--batch", w.batch, "Samples in a mini-batch of one worker")
      ->check(whole_number(1))
      ->capture_default_str()
      ->group("What to train");
  auto* epochs =
      parser.add_option("--epochs", w.epochs, "Passes over the training set by all workers together")
          ->check(whole_number(1))
          ->capture_default_str()
          ->group("What to train");
  parser.add_option("--steps", w.steps, "Mini-batches of all workers together, instead of --epochs")
      ->check(whole_number(1))
      ->excludes(epochs)
      ->group("What to train");
}

namespace {

constexpr double most_rate = std::numeric_limits<float>::max();

} // namespace

void add_optimizer_options(CLI::App& parser, train_words& w) {
  parser
      .add_option(
          "--optimizer", w.optimizer,
          fmt::format(
              "The update rule: {}, or a plug-in such as ./libmine.so; with settings: "
              "adam:beta1=0.8,epsilon=1e-6; lars, lamb, muon and shampoo look at whole variables, so shards "
              "are cut between these",
              fmt::join(optimizer_names(), ", ")))
      ->capture_default_str()
      ->group("Optimiser");
  parser
      .add_option("--lr", w.learning_rate,
                  "Learning rate; by default that of the optimiser, " + where_listed(w))
      ->check(number())
      ->check(number(0, most_rate))
      ->group("Optimiser");
  parser
      .add_option("--schedule", w.schedule,
                  "How the learning rate changes: constant, step:every=500,factor=0.1 or "
                  "cosine:total=1000,warmup=100")
      ->capture_default_str()
      ->group("Optimiser");
  parser
      .add_option("--weight-decay", w.weight_decay,
                  "Decoupled weight decay: in each step the weights shrink by the fraction lr * X")
      ->check(number())
      ->group("Optimiser");
  parser.add_option("--l2", w.l2, "L2 penalty in the loss: the gradient grows by X * weights")
      ->check(number())
      ->group("Optimiser");
  parser
      .add_option("--clip-norm", w.clip_norm,
                  "The largest global norm of a worker's gradient; a larger one is scaled down; 0: no limit")
      ->check(number())
      ->group("Optimiser");
}

void add_local_step_options(CLI::App& parser, train_words& w) {
  auto* steps =
      parser
          .add_option(
              "--local-steps", w.local_steps,
              "Steps that each worker takes on its own weights before it sends their change to the shards")
          ->check(whole_number(1))
          ->group("Local steps");
  parser
      .add_option(
          "--outer-optimizer", w.outer_optimizer,
          "The optimiser of the shards, which takes such changes as gradients; --optimizer is then that of "
          "the workers. For DiLoCo take nesterov; for workers that do not wait, delayed-nesterov:period=N")
      ->capture_default_str()
      ->needs(steps)
      ->group("Local steps");
  parser
      .add_option("--outer-lr", w.outer_learning_rate,
                  "Learning rate of the outer optimiser; by default " + where_listed(w) +
                      ", but 1 for sgd, which averages the models")
      ->check(number())
      ->check(number(0, most_rate))
      ->needs(steps)
      ->group("Local steps");
}

void add_result_options(CLI::App& parser, train_words& w) {
  output_paths& paths = w.outputs;
  parser
      .add_option(
          "--report", paths.report,
          "Write a report of the run to this file, as one JSON object; -: to standard output, with the "
          "summary on standard error; the same holds for the next two options")
      ->check(file_name())
      ->type_name("FILE")
      ->group("Output");
  parser
      .add_option("--save", paths.save,
                  "Write the trained weights to this safetensors file, or to one of numpy if it ends in "
                  ".npz, with what "
                  "is needed to use the model")
      ->check(file_name())
      ->type_name("FILE")
      ->group("Output");
  add_observing_options(parser, w, "Output");
}

void add_observing_options(CLI::App& parser, train_words& w, const std::string& group) {
  parser
      .add_option("--staleness-csv", w.outputs.staleness_csv,
                  "Write how often each gap of staleness occurred, a line for each shard, worker and gap")
      ->check(file_name())
      ->type_name("FILE")
      ->group(group);
  parser
      .add_option("--trace", w.outputs.trace,
                  "Write what each actor did and waited for, as a timeline for ui.perfetto.dev; at most the "
                  "first " +
                      std::to_string(traced_events) + " events of each actor")
      ->check(file_name())
      ->type_name("FILE")
      ->group(group);
  parser
      .add_option("--sample-gap", w.sample_gap,
                  "Compare one in N gradients of a worker with a fresh gradient of its batch: how far the "
                  "weights had moved, and the cosine of both gradients. Each comparison costs a step. 0: "
                  "never; not for hogwild")
      ->check(whole_number(0))
      ->capture_default_str()
      ->group(group);
}

namespace {

void add_record(CLI::App& parser, train_words& w) {
  parser
      .add_option("--record", w.outputs.record,
                  "Write the order of all gradients to this file, for 'mailgrad replay'; not for hogwild")
      ->check(file_name())
      ->type_name("FILE")
      ->group("Output");
}

} // namespace

void add_text_options(CLI::App& parser, train_words& w) {
  parser
      .add_option("--sample-length", w.sample_length,
                  "For text: how many symbols the trained model writes at the end; 0: none")
      ->check(whole_number(0))
      ->capture_default_str()
      ->group("Output");
  parser
      .add_option("--temperature", w.temperature,
                  "For text: 1 draws each symbol by the model's probabilities, a lower value prefers likely "
                  "symbols, and 0 always takes the likeliest")
      ->check(number(0, 1000))
      ->capture_default_str()
      ->group("Output");
  parser.add_flag("--quiet", w.quiet, "Show no progress, only the summary and what goes wrong")
      ->disable_flag_override()
      ->group("Output");
}

void add_metrics_options(CLI::App& parser, train_words& w, const std::string& group) {
  parser
      .add_option(
          "--metrics", w.outputs.metrics,
          "Write what is measured during the run to this file, a line at a time: JSON lines, or CSV if its "
          "name ends in .csv; an older file is kept as FILE.old")
      ->check(file_name())
      ->type_name("FILE")
      ->group(group);
  parser
      .add_option("--tensorboard", w.outputs.tensorboard,
                  "Write the same figures and the staleness of all gradients as an event file into this "
                  "folder, which TensorBoard shows during the run")
      ->check(file_name())
      ->type_name("DIR")
      ->group(group);
  parser
      .add_option("--metrics-every", w.metrics_every,
                  "How often such lines and events are made, also for the curve in the report: a time as "
                  "500ms, 1s or 10min, "
                  "a number of steps of all workers together, or epoch")
      ->check(interval_text())
      ->capture_default_str()
      ->type_name("N|TIME|epoch")
      ->group(group);
}

} // namespace mailgrad
