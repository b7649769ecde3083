#pragma once

#include <mailgrad/cli/device_option.hpp>
#include <mailgrad/cli/live/live_guard.hpp>
#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/run_outputs.hpp>
#include <mailgrad/cli/remote/remote_args.hpp>
#include <mailgrad/data/formats/number_rows.hpp>
#include <mailgrad/data/open.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>

namespace mailgrad {

/// The values of the options on tables, as CSV files are, on sparse rows, on pictures, and on the part that
/// is cut off for testing.
struct table_args {
  std::string label;
  std::string header = "auto";
  std::string delimiter;
  std::string decimal = "auto";
  std::string missing = "refuse";
  std::vector<std::string> categories;
  std::vector<std::string> left_out;
  std::string pictures = "auto";
  std::uint64_t features = 0;
  std::optional<double> test_fraction;
};

/// Puts the words into the options for opening data.
///
/// Errors  std::invalid_argument, in one line, for a delimiter that is none.
void apply(const table_args& w, open_options& o);

/// How rows without labels are written, for a model that knows the table.
row_options rows_as(const table_args& w, table_layout table);

/// The values of the options about checkpoints, before they are interpreted.
struct checkpoint_args {
  std::string folder;
  std::string every = "10min";
  std::size_t keep = 3;
  std::string resume;
  bool same_outputs = false;          ///< writes what the run wrote that is resumed
  std::vector<std::string> plugins{}; ///< which that run may have loaded
};

/// The most events kept for an actor: they take 16 MB and last for about an hour of LeNet.
inline constexpr std::size_t traced_events = 250'000;

/// The values of the options of `mailgrad train`, before they are interpreted.
struct train_args {
  training_options run = unasked(); ///< of these, the ones that need no interpretation
  std::string model = "mlp";
  std::string data = "fashion-mnist";
  std::string task = "automatic";
  std::string split = "random";
  table_args table;
  std::string devices = "cpu:0";   ///< empty: left open
  bool usual_devices = false;      ///< they were chosen since the command left them open
  std::string parameters = "host"; ///< or places, as devices are named
  std::string precision = "float32";
  spanning_args span;
  std::uint32_t workers = 0;
  std::uint32_t simulated = 0; ///< workers in virtual time; 0: they are real
  bool local_samples = false;  ///< of each of these
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
  checkpoint_args checkpoints;
  live_args live;
  std::string metrics_every = "1s";
  std::string evaluate_every;
  double validation = 0;
  std::string on_divergence = "end";                     ///< or go-on
  std::string keep_weights;                              ///< empty: best with patience, else last
  std::uint64_t data_limit = parsed_limit().bytes >> 30; ///< in GiB
  std::size_t window = 64;
  remote_args remote; ///< of `serve` and --processes
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

/// How many workers are processes of their own, and how many devices each of them has.
std::uint32_t workers_elsewhere(const train_args& w);
std::uint32_t devices_elsewhere(const train_args& w);
/// The plug-ins that each of them needs: one with the rule of its local steps, or none.
std::vector<std::string> plugins_elsewhere(const train_args& w);
/// What workers are told that --processes starts.
worker_args local_workers_of(const train_args& w);

/// The values of the options that a recording keeps.
///
/// Errors  recording_error for an option that train does not have.
train_args recorded_values(const recording& what);
open_options opened_as(const train_args& w);

/// The training options that the words stand for, without those for recording and replay.
///
/// Errors  std::invalid_argument, device_error: in one line, the wrong word and what would be right.
training_options understood(const train_args& w);
/// The same, with the weights that --load names.
/// Errors  as understood() and load_weights().
training_options with_first_weights(const train_args& w);
/// Errors  std::invalid_argument in one line: --checkpoint-every is no interval.
checkpoint_options understood(const checkpoint_args& w);
run_inputs inputs_of(const train_args& w, const recording* replay = nullptr);

/// The words of a command that leaves rule and devices open. The words of a recording, of a checkpoint and of
/// the lab are plain train_args: where they name no rule and no devices, these are sgd and cpu:0, as such
/// commands meant before there was a choice.
train_args open_args();

/// Writes into the words what a new run takes where its command left it open, so that recordings and
/// checkpoints say it: adam, with which all built-in models learn (docs/models.md), and for workers of this
/// program each GPU, or else each core that the process may use. --workers has as many devices, in turns.
/// Workers on such devices take sync, since adam bears little staleness: eight workers under async spoil it.
train_args with_usual_choices(train_args w, const CLI::App& parser);
/// The same on cores, for a run that no GPU can train.
train_args with_usual_cores(train_args w);

/// Gives each worker an equal share of the training set as its mini-batch, if the command names no --batch
/// and the default is larger than the set. Recordings and checkpoints of the run then name that size.
void fit_usual_batch(const train_args& w, training_options& o, std::size_t samples);

/// Each GPU that answers and is new enough, or else `cores`.
std::vector<device> usual_devices(const cuda::runtime::found_gpus& found, std::vector<device> cores);

/// "adam at 0.001 (default), sync (default) on 2 cores"
std::string format_choices(const train_args& w, const training_options& o);

/// The words that decide how much memory of GPUs a run takes.
///
/// Errors  device_error for a word that names no device.
memory_needs memory_needs_of(const train_args& w, bool is_replay);

using remedy_function = std::function<std::string(const std::string& options)>;

/// Refuses to repeat the run of a recording, or to go on with that of a checkpoint, if it asks for devices
/// that this machine lacks. `given` are the options of now: devices among them are left to who reads these.
/// `whose` is "recording 'run.rec'", and `remedy` says what would do, of options such as
/// "--parameters and --devices" that ask for what is missing.
///
/// Errors  device_error in one line: what `whose` asks for, what is there instead, and the way on.
void require_asked_places(const train_args& w, const option_args& given, const std::string& whose,
                          const remedy_function& remedy);

/// "on cores it goes on with --devices cpu:0", for a run that asked for GPUs.
///
/// Errors  device_error for a word that names no device.
std::string remedy_with_cores(const train_args& w);

} // namespace mailgrad
