#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/cli/commands/checkpoint_words.hpp>
#include <mailgrad/cli/commands/table_words.hpp>
#include <mailgrad/cli/device_option.hpp>
#include <mailgrad/cli/live/live_words.hpp>
#include <mailgrad/cli/output/run_outputs.hpp>
#include <mailgrad/cli/remote/local_workers.hpp>
#include <mailgrad/cli/remote/remote_words.hpp>
#include <mailgrad/cli/run_inputs.hpp>
#include <mailgrad/data/open.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// The most events kept for an actor: they take 16 MB and last for about an hour of LeNet.
inline constexpr std::size_t traced_events = 250'000;

/// The values of the options of `mailgrad train`, before they are interpreted.
struct train_words {
  training_options run = unasked(); ///< of these, the ones that need no interpretation
  std::string model = "mlp";
  std::string data = "fashion-mnist";
  std::string task = "automatic";
  std::string split = "random";
  table_words table;
  std::string devices = "cpu:0";   ///< empty: left open (usual_choices.hpp)
  bool usual_devices = false;      ///< they were chosen since the command left them open
  std::string parameters = "host"; ///< or places, as devices are named
  std::string precision = "float32";
  spanning_words span;
  std::uint32_t workers = 0;
  std::uint32_t simulated = 0; ///< workers in virtual time; 0: they are real
  bool own_samples = false;    ///< of each of these
  bool interrupts = false;     ///< of these, when their gradient is too late
  std::string latency;         ///< of the links between each of these and the shards; empty: none
  std::string bandwidth;       ///< of these links; empty: messages take no time
  bool loses_rest = false;     ///< what a lossy message lacks is lost
  std::optional<std::size_t> micro_batches;
  bool usual_policy = false; ///< it was chosen since the command left it open
  std::string load;
  std::string load_strict = "yes";
  std::string optimizer = "sgd";
  bool usual_rule = false;  ///< it was chosen since the command left it open
  bool usual_batch = false; ///< the command left it open
  std::string schedule = "constant";
  std::string outer_optimizer = "sgd";
  output_paths outputs;
  checkpoint_words checkpoints;
  live_words live;
  std::string metrics_every = "1s";
  std::string evaluate_every;
  double validation = 0;
  std::string on_divergence = "end";                     ///< or go-on
  std::string keep_weights;                              ///< empty: best with patience, else last
  std::uint64_t data_limit = parsed_limit().bytes >> 30; ///< in GiB
  std::size_t window = 64;
  remote_words remote; ///< of `serve` and --processes
  bool quiet = false;
  bool dry_run = false; ///< says what is understood, and trains nothing

private:
  static training_options unasked() {
    training_options o;
    o.outer.learning_rate.reset(); // that of the rule
    o.text.length = 300;
    return o;
  }
};

/// How many workers are processes of their own.
std::uint32_t workers_elsewhere(const train_words& w);

/// How many devices each of them has.
std::uint32_t devices_elsewhere(const train_words& w);

/// The plug-ins that each of them needs: one with the rule of its local steps, or none.
std::vector<std::string> plugins_elsewhere(const train_words& w);

/// What workers are told that --processes starts.
///
/// Errors  as device_names().
worker_words local_workers_of(const train_words& w);

/// The values of the options that a recording keeps.
///
/// Errors  recording_error for an option that train does not have.
train_words recorded_values(const recording& what);

/// The options for reading the data set.
open_options opened_as(const train_words& w);

/// The training options that the words stand for, without those for recording and replay.
///
/// Errors  std::invalid_argument, device_error: in one line, the wrong word and what would be right.
training_options understood(const train_words& w);

/// The same, with the weights that --load names.
///
/// Errors  as understood() and load_weights().
training_options with_first_weights(const train_words& w);

/// What a run of these words reads.
run_inputs inputs_of(const train_words& w, const recording* replay = nullptr);

} // namespace mailgrad
