#pragma once

#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/options/interval.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/small_floats.hpp>

#include <chrono>

namespace mailgrad {

/// What a worker computes on, in words that are the same on all machines where it rounds the same.
struct worker_computer {
  std::string name;       ///< "NVIDIA H100", "the host", or several: "NVIDIA H100 and the host"
  std::string products{}; ///< what multiplies on its GPUs, with its version; empty: it has no GPU

  bool has_gpu() const noexcept { return !products.empty(); }

  friend bool operator==(const worker_computer&, const worker_computer&) = default;
};

/// "NVIDIA H100", or "the host".
std::string format_computer(device d);

/// What multiplies on the GPUs of this machine; "none" if nothing does.
std::string products_here();

/// What these devices of this machine are.
worker_computer computer_of(const std::vector<device>& devices);

/// "NVIDIA H100, the host": what each worker computes on.
std::string format_names(const std::vector<worker_computer>& all);

/// What multiplies on their GPUs: one version, or several if these differ; "none" if nobody has a GPU.
std::string format_products(const std::vector<worker_computer>& all);

bool any_has_gpu(const std::vector<worker_computer>& all) noexcept;

/// What a plan knows of a user's own parameter actor. custom_parameter_actor.hpp adds how it is spawned.
struct parameter_actor_kind {
  std::string name;             ///< the report shows it
  bool switches = false;        ///< answers `switch_policy`; if not, the run refuses every switch
  bool whole_variables = false; ///< each of its shards has whole variables

  parameter_actor_kind(std::string its_name, bool it_switches, bool asks_for_whole_variables = false)
      : name(std::move(its_name)), switches(it_switches), whole_variables(asks_for_whole_variables) {}
  virtual ~parameter_actor_kind() = default;
  parameter_actor_kind(const parameter_actor_kind&) = delete;
  parameter_actor_kind& operator=(const parameter_actor_kind&) = delete;
};

class checkpoint;
class folder_lock;
struct recording;
struct saved_weights;

/// Where and how often the state of a run is kept, so that another process can go on.
struct checkpoint_options {
  std::string folder{}; ///< empty: no checkpoints. One that is not there is made
  /// When the next one is due: after so many mini-batches of all workers, or so much time; 0: not by that.
  std::uint64_t every_steps = 0;
  std::chrono::nanoseconds every{0};
  std::size_t keep = 3; ///< older ones are removed
  /// The lock on the folder, if the owner of the run has it already; null: the run takes it.
  std::shared_ptr<const folder_lock> lock{};
};

/// Which weights an ended run gives, tests and reports.
enum class kept_weights : std::uint8_t {
  last,
  best, ///< of the test with the lowest loss: on the samples held out, or else on the test samples
};

/// A stream of a GPU has the inputs of so many steps besides those of the one it computes.
inline constexpr std::uint64_t most_run_ahead = 1;

/// What a run does whose loss has grown to nonsense, but is a finite number still (account/early_stop.hpp).
/// One that is no finite number ends the run in any case, as nothing can be learnt from it.
enum class on_divergence : std::uint8_t { end, go_on };

/// How to train a model.
struct training_options {
  /// Each device runs one worker. A device that is named twice runs two workers in turns.
  std::vector<device> devices{{device_kind::cpu, 0}};
  /// Where the shards keep the weights: shard s on the s-th of these, round and round: a GPU, or `cpu`.
  /// Empty: all on the host.
  std::vector<device> parameters{};
  /// Steps that a worker begins before the one under way has ended, if all weights lie on its GPU: at most
  /// most_run_ahead. Refused where no worker can, such as with clipping. With 0 a shard takes a gradient when
  /// it is there, and none waits for a slower worker's.
  /// Nothing: as many as the policies can judge (steps_ahead()).
  std::optional<std::uint64_t> run_ahead{};
  /// Of the matrix products of workers. Others than float32 need every worker on a GPU.
  product_precision precision = product_precision::float32;
  /// Of a run whose workers are of other processes: what they compute on, as they tell when they join; empty
  /// until all have come. None: the workers are of this process, and have `devices`.
  std::optional<std::vector<worker_computer>> elsewhere{};
  /// 0: as many workers as devices. With fewer workers, each gets an equal number of devices, in their order.
  /// Its model spans these devices as scopes, replicate() or pipelined() place it.
  std::uint32_t workers = 0;
  /// The workers that may take part, at most: those from `workers` on may join later. 0: as many as begin.
  std::uint32_t slots = 0;
  /// How long a run waits for another worker when all are gone, lost or by their own will, and batches are
  /// left; 0: it ends at once, as failed if all were lost; max(): for ever.
  std::chrono::nanoseconds waits_for_workers{0};
  /// The parts into which a worker that spans devices cuts its batch, so that all its devices have work.
  std::size_t micro_batches = 1;
  /// One policy, or several with their first steps: "async, sync@1000"; or "auto".
  std::string policy = "async";
  /// Workers add their gradients up before a shard sees them, by ranks of MPI (see checked_options.hpp).
  bool all_reduce = false;
  /// How long the steps of workers take at least, in the grammar of delay_spec; a worker idles for the rest.
  /// Empty: as long as they need. A replay ignores it, since it makes no difference to the weights.
  std::string delays{};
  std::uint64_t delays_seed = 1; ///< of these times
  std::string cure = "none";     ///< a cure of staleness, in the grammar of make_cure()
  optimizer_options optimizer{}; ///< the default is plain SGD
  std::uint64_t local_steps = 0; ///< of a worker between two exchanges; 0: each gradient goes to the shards
  /// The optimiser of the shards, if there are local steps. SGD with learning rate 1 averages models.
  optimizer_options outer{.learning_rate = 1};
  std::shared_ptr<const saved_weights> start{}; ///< the weights to begin with; null: the seed draws them
  /// Whether these must fit every variable of the model. If not, those that fit are taken, at least one.
  bool start_whole = true;
  std::size_t batch = 64;       ///< samples in a mini-batch of one worker
  std::uint64_t epochs = 1;     ///< passes over the training set, by all workers together
  std::uint64_t steps = 0;      ///< mini-batches of all workers together; 0: as many as `epochs` has
  std::uint32_t shards = 1;     ///< parameter actors; there are none if hogwild is the only policy
  std::uint64_t seed = 1;       ///< of initial weights, order of samples and dropout
  std::uint64_t sample_gap = 0; ///< a worker compares one of so many gradients with a fresh one; 0: none
  text_sample_options text{};   ///< what a model that was trained on a text writes at the end
  std::size_t trace_events = 0; ///< the most events in the timeline of each actor; 0: no timeline
  /// The file for lines of what is measured during the run, as metrics_file writes it. Empty: no file.
  std::string metrics{};
  /// The folder for an event file of TensorBoard, as tensorboard_file writes it. Empty: no file.
  std::string tensorboard{};
  interval metrics_every{.span = std::chrono::seconds{1}}; ///< how often a line is made
  /// How often the weights are tested during the run, on a thread of their own: on the samples of
  /// data_split::validation if there are any, else on the test samples.
  interval evaluate_every{};
  /// The run ends when one of these conditions holds (parse_stop_conditions()). Empty: it does not.
  std::string stop_when{};
  /// The run ends after so many tests during it, one after the other, without a lower loss. 0: it does not.
  std::uint64_t patience = 0;
  on_divergence when_diverged = on_divergence::end;
  /// Whether the weights of the run are those that did best in its tests, or those it ended with.
  kept_weights keep = kept_weights::last;
  /// The file for the recording, the order in which shards take gradients. Empty: no file, as in a replay.
  std::string record{};
  std::vector<std::string> words{};          ///< the command line, for readers of the recording
  std::vector<std::string> args_to_resume{}; ///< that of a run that goes on from a checkpoint; empty: `words`
  std::vector<std::string> args_of_server{}; ///< of the server that such a run has left; for its checkpoints
  std::string folder_of_args{};              ///< in which the command line was typed; for checkpoints as well
  /// What the user calls the model, as "mlp:hidden=16": for reports and messages alone. May be empty.
  std::string model_name{};
  std::shared_ptr<const recording> replay{}; ///< the run to repeat; only the devices may differ from it
  checkpoint_options checkpoints{};
  /// A checkpoint of the same run, to go on from; null: the run begins. Devices, steps, epochs and the
  /// options of checkpoints and outputs may differ from those of that run.
  std::shared_ptr<const checkpoint> resume{};
  /// Whether `resume` was taken as the newest of its folder. If the run keeps its checkpoints there, too, it
  /// is refused if another process has written a newer one before the folder was locked.
  bool resume_newest = false;
  /// A user's own parameter actor for every shard, as custom_parameter_actor.hpp makes it; null: Mailgrad's.
  std::shared_ptr<const parameter_actor_kind> parameter_actor{};
};

} // namespace mailgrad
