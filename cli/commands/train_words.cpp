#include <mailgrad/cli/commands/train_words.hpp>

#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/engine/plan/training_options.hpp>

#include <fmt/format.h>

#include <limits>
#include <string>

// All options of `mailgrad train`. Those that say how to run it, and when to end, are described here; files
// beside this one have the others.

namespace mailgrad {

namespace {

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

} // namespace

std::string where_listed(const train_words& w) {
  return w.remote.serve ? "as 'mailgrad help train' lists" : "as listed below";
}

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

} // namespace mailgrad
