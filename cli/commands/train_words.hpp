#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/cli/commands/checkpoint_words.hpp>
#include <mailgrad/cli/commands/table_words.hpp>
#include <mailgrad/cli/device_option.hpp>
#include <mailgrad/cli/live/live_words.hpp>
#include <mailgrad/cli/output/run_outputs.hpp>
#include <mailgrad/cli/remote/local_workers.hpp>
#include <mailgrad/cli/remote/remote_words.hpp>
#include <mailgrad/data/open.hpp>

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

struct recording;

/// The most events kept for an actor: they take 16 MB and last for about an hour of LeNet.
inline constexpr std::size_t traced_events = 250'000;

/// The values of the options of `mailgrad train`, before they are interpreted.
struct train_words {
  std::string model = "mlp";
  std::string data = "fashion-mnist";
  std::string task = "automatic";
  std::string split = "random";
  table_words table;
  std::string devices = "cpu:0";   ///< empty: left open (usual_choices.hpp)
  bool usual_devices = false;      ///< they were chosen since the command left them open
  std::string parameters = "host"; ///< or places, as devices are named
  std::optional<std::uint64_t> run_ahead;
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
  std::string policy = "async";
  bool usual_policy = false; ///< it was chosen since the command left it open
  std::string cure = "none";
  std::string delays; ///< empty: none
  std::uint64_t delays_seed = 1;
  std::string load;
  std::string load_strict = "yes";
  std::string optimizer = "sgd";
  bool usual_rule = false; ///< it was chosen since the command left it open
  std::optional<double> learning_rate;
  std::string schedule = "constant";
  std::optional<double> weight_decay;
  double l2 = 0;
  double clip_norm = 0;
  std::uint64_t local_steps = 0;
  std::string outer_optimizer = "sgd";
  std::optional<double> outer_learning_rate;
  std::size_t batch = 64;
  std::uint64_t epochs = 1;
  std::uint64_t steps = 0;
  std::uint32_t shards = 1;
  std::uint64_t seed = 1;
  output_paths outputs;
  checkpoint_words checkpoints;
  live_words live;
  std::string metrics_every = "1s";
  std::string evaluate_every;
  double validation = 0;
  std::string stop_when;
  std::uint64_t patience = 0;
  std::string on_divergence = "end"; ///< or go-on
  std::string keep_weights;          ///< empty: best with patience, else last
  std::uint64_t sample_gap = 0;
  std::uint64_t data_limit = parsed_limit().bytes >> 30; ///< in GiB
  std::size_t window = 64;
  std::size_t sample_length = 300;
  double temperature = 0.8;
  remote_words remote; ///< of `serve` and --processes
  bool quiet = false;
  bool dry_run = false; ///< says what is understood, and trains nothing
};

void add_options(CLI::App& parser, train_words& w);

// Parts of these options, for commands that take some of them.
void add_data_options(CLI::App& parser, train_words& w);
void add_policy_options(CLI::App& parser, train_words& w);
void add_delay_options(CLI::App& parser, train_words& w);
void add_optimizer_options(CLI::App& parser, train_words& w);
void add_local_step_options(CLI::App& parser, train_words& w);
void add_result_options(CLI::App& parser, train_words& w); ///< files that are written at the end
/// --staleness-csv, --trace and --sample-gap, which are among those.
void add_observing_options(CLI::App& parser, train_words& w, const std::string& group);
void add_divergence_option(CLI::App& parser, train_words& w, const std::string& group);
void add_metrics_options(CLI::App& parser, train_words& w, const std::string& group); ///< lines during a run
void add_text_options(CLI::App& parser, train_words& w); ///< what a text model writes, and --quiet

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

} // namespace mailgrad
