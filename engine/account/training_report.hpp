#pragma once

#include <mailgrad/engine/account/gradient_ledger.hpp>
#include <mailgrad/engine/account/metrics_line.hpp>
#include <mailgrad/engine/account/staleness_histogram.hpp>
#include <mailgrad/engine/account/training_progress.hpp>

#include <array>
#include <limits>
#include <variant>

namespace mailgrad {

/// A process that takes or took part in a run over processes: a worker or a parameter host, as the server
/// knows it.
/// Units   times are seconds before now.
struct run_member {
  enum class state : std::uint8_t {
    joined,
    done, ///< it has gone since the run needs it no longer, or was in the run when that ended
    left, ///< of its own will, or as its owner asked
    lost, ///< killed, frozen, cut off, or it failed
  };

  std::string role; ///< "worker", "parameter host"
  std::uint32_t number = 0;
  std::uint32_t incarnation = 1; ///< the last one
  state is = state::joined;
  double since = 0;                    ///< when it joined or went
  std::optional<double> heard{};       ///< when the last byte came; nothing if that is not known
  std::string address{};               ///< where it connects from: "10.0.0.3:51234"
  std::vector<std::string> devices{};  ///< of a worker
  std::vector<std::uint32_t> shards{}; ///< that a parameter host has been given
  std::uint32_t losses = 0;            ///< how often it was lost
  std::string why{};                   ///< last words of the incarnation that went last; empty: none did

  bool stays() const noexcept { return is == state::joined || is == state::done; }
};

/// "joined", "done", "left", "lost"
std::string_view to_string(run_member::state s) noexcept;

/// The most members that are told of one by one.
inline constexpr std::size_t most_members_listed = 64;

/// Of one role, how many are in each state.
struct member_counts {
  std::string role;
  std::array<std::uint64_t, 4> in{}; ///< by state
  std::uint64_t losses = 0;          ///< with those of members that came back
};

/// Each role that is there, in the order in which it comes first.
std::vector<member_counts> counted(const std::vector<run_member>& members);

/// All members as one JSON object without a line feed: `counts` has for each role how many are in each state,
/// and `listed` has at most most_members_listed of them, by role and number. If there are more, those that
/// are lost come first, then those that have left, the latest first, then those that were not heard for
/// longest. Last words and devices are cut, so the object is of bounded size.
std::string to_json(std::vector<run_member> members);

/// When a checkpoint was collected, and what became of it.
struct checkpoint_times {
  enum class fate : std::uint8_t {
    given_up, ///< a part could not come any more, or the run ended first
    written,
    failed, ///< the file could not be written
  };
  std::uint64_t number = 0; ///< from 1; a run that is resumed counts anew
  instant begun{0};         ///< when the parts were asked for
  instant collected{0};     ///< when the last part came, or the checkpoint was given up
  instant ended{0};         ///< when the file was there or had failed; `collected` if given up
  fate what = fate::given_up;
  std::uint64_t steps = 0; ///< that the workers had trained; 0 if given up
  std::string file{};
  std::uint64_t bytes = 0; ///< of the file, if it was written
  std::string failure{};   ///< in one line, if it failed
};

/// What became of the checkpoints of a run.
struct checkpoint_account {
  std::uint64_t written = 0; ///< files; one that takes the place of the last one is none more
  std::uint64_t failed = 0;
  std::uint64_t bytes = 0; ///< of all files that were written
  double seconds = 0;      ///< that the writer's thread took for all of them, by the machine's clock
  double held_seconds = 0; ///< that workers of hogwild stood still, from the first request until they went on
  std::string last{};      ///< the file of the last one
  std::uint64_t steps = 0; ///< that the workers had trained then
  std::string failure{};   ///< of the last one that failed, in one line
  std::uint64_t skipped = 0; ///< became due while one before waited for its turn, which was taken for both
  std::uint64_t removed_for_room = 0; ///< older ones, which would have stayed if the disk were not full
};

/// What became of the recording of a run.
struct recording_account {
  std::string file;
  std::uint64_t bytes = 0; ///< of the whole recording, or of all that was written when it ended early
  std::string failure{};   ///< why it ended before the run did; empty: it did not, or not yet
  double seconds = 0;      ///< how long the run had lasted when the recording ended early
  /// The file that has its first `kept_bytes` bytes, which a replay repeats as far as they go. Empty: none.
  std::string kept{};
  std::uint64_t kept_bytes = 0;
  bool removed = false; ///< so that other files have room
};

// Both are for a recording that ended early.

/// "ended early, after 12.3 s with 8.1 MiB: No space left on device; its first 7.0 MiB are in
/// 'run.rec.partial', the rest made room for other files"
std::string format_early_end(const recording_account& r);
/// "recording 'run.rec' ended early, after ..."
std::string format_recording(const recording_account& r);

/// The origin of a result: the build, the machine and the date. Unknown fields are empty.
struct provenance {
  std::string version;   ///< of Mailgrad
  std::string commit;    ///< the program was built from this commit; set by the program, such as the tool
  std::string compiler;  ///< "GNU 12.2.0"
  std::string date;      ///< when the run began, in UTC and the form of ISO 8601; set by the program
  std::string host;      ///< name of the machine
  std::string processor; ///< the name that the processor reports
};

/// The origin of this process, without commit and date, because the library does not read the date itself.
provenance this_program();

/// A change of policy in mid-run.
struct policy_switch {
  std::uint64_t step = 0;
  std::string from;
  std::string to;
  std::string why;
  instant begun{0}; ///< when the first worker was asked to pause
  instant ended{0}; ///< when every shard had switched
  /// The same in seconds since the run began, in a report; none for a switch of an earlier process.
  std::optional<double> time_s{};
};

/// Time that workers spent waiting, summed over all of them.
struct wait_seconds {
  double barrier = 0; ///< for other workers' gradients
  double bound = 0;   ///< for slower workers, at a staleness bound
  double feeder = 0;  ///< for a batch
};

/// Where the mini-batches of a worker came from.
struct batch_origins {
  std::uint64_t own = 0;          ///< cut by it from samples of its own
  std::uint64_t sent = 0;         ///< trained, and sent by the feeder
  std::uint64_t lost = 0;         ///< sent as well, to an incarnation that was lost before it trained them
  std::uint64_t spared_bytes = 0; ///< of its own ones, which were not sent
};

/// The figures of the exchange between one worker and one shard.
struct exchange_figures {
  std::optional<std::uint32_t> shard; ///< none in hogwild, where workers write into one block
  std::uint32_t worker = 0;
  staleness_histogram gaps; ///< of gradients applied or merged
  time_split times;
  running_stat weight_gap; ///< of the sampled gradients
};

/// A sampled gradient at one shard: how old it was, and what that did to it.
struct sampled_figures {
  std::uint32_t shard = 0, worker = 0;
  std::uint64_t step = 0;         ///< the worker's own count of its gradients
  std::uint64_t lag = 0;          ///< versions of the shard since its weights were read
  double gap = 0;                 ///< as `weight_gap` below
  std::optional<double> cosine{}; ///< as `gradient_cosine`; none if it is not known, or was dropped
};

/// One device of a worker whose model spans several, and how long it computed.
struct stage_figures {
  std::uint32_t worker = 0;
  std::string device;
  double busy_seconds = 0;
};

/// The checkpoint that a run went on from.
struct resumed_figures {
  std::string from;        ///< its file
  std::uint64_t steps = 0; ///< that had been trained then
  /// Of these, by workers that do not go on: the steps of the report leave them out.
  std::uint64_t steps_before = 0;
  /// What multiplied on GPUs before, if another version does now: "cuBLAS 13.0.0". Else empty.
  std::string products_before{};
};

/// The test that did best, after so many steps of all workers.
struct best_test {
  std::uint64_t steps = 0;
  double loss = 0;
  bool held_out = false;        ///< on samples held out of those for training, not on the test samples
  std::string weights_sha256{}; ///< of the weights, with the gaps between variables
  /// Why the last weights, which may be better, could not be tested; empty if the test was made, or ended
  /// early.
  std::string why_last_untested{};
};

/// The law by which the steps of a run took time.
struct prescribed_delays {
  std::string law;
  std::uint64_t seed = 1;
  bool virtual_time = false; ///< the run was simulated, and all its times are virtual
  bool interrupts = false;   ///< an update that made a gradient too stale ended its step
  std::string latency{};     ///< of simulated links; empty: none
  std::string bandwidth{};
};

/// What tests of the weights during a run cost, on a thread of their own, and which are lacking.
struct evaluation_cost {
  std::uint64_t count = 0;
  double seconds = 0;
  std::string why_on_host{};  ///< as in tests_made
  std::uint64_t left_out = 0; ///< tests that could not be made, and so were not judged
  std::string why_left_out{}; ///< of the last of these, in one line
};

/// Where the weights of a run were tested at its end.
struct tests_made {
  std::string device;         ///< "cuda:0", or "cpu:0" for the host
  std::string why_on_host;    ///< in a run with a GPU: why it was not there, in one line; else empty
  std::string text_on_host{}; ///< why the text was not written there, if only that was not; else empty
};

/// How the GPUs of this process worked while the run went on, if workers of it are on some. Steps of other
/// runs at the same time count. Of generated kernels it is what has become of them since the process began.
struct gpu_figures {
  std::uint64_t graph_steps = 0;    ///< steps of workers on one stream that were queued as one graph
  std::uint64_t launched_steps = 0; ///< and kernel by kernel
  std::size_t generated_kernels = 0;
  std::string why_interpreted{}; ///< why a chain of operations has no kernel; empty: each has, or will have
};

/// Of a run in progress: a shard that has not answered the last question for its figures, or is lost.
struct late_figures {
  std::uint32_t shard = 0;
  std::optional<double> seconds_old{}; ///< those that it has told; none: it has told none
};

/// The ledger of one shard.
struct shard_ledger {
  std::uint32_t shard = 0;
  gradient_ledger counts;
};

struct data_reading;

/// The report of a run. Unknown figures are absent, never 0.
struct training_report {
  provenance origin;
  std::vector<std::string> command; ///< the options of a command line that decide what is computed
  std::string model;                ///< as the command line or training_options::model_name called it
  std::string span; ///< "replicate" or "pipeline", if that was asked for; empty where scopes place the model
  std::size_t weights = 0;           ///< of the model, without gaps between its variables
  std::string policy;                ///< as asked for, with the switches that were planned
  std::string present_policy;        ///< the one that trains now, or did when the run ended
  std::optional<std::string> wire{}; ///< the format in which gradients travelled; none: within the process
  std::vector<std::string> devices;
  std::string precision = "float32"; ///< of the workers' matrix products
  std::uint32_t workers = 1;
  std::size_t micro_batches = 1;     ///< parts of a batch that go through the devices of a worker
  std::vector<stage_figures> stages; ///< empty if each worker has one device
  std::string ended; ///< "completed", "stopped", "diverged", "failed"; "running" if it has not
  std::string why;   ///< one line, if it was not completed, or not tested to the end
  std::vector<std::uint32_t> lost_shards; ///< whose weights and counts are gone
  bool enough = false;     ///< it was stopped as its options asked for: training_options::stop_when, patience
  std::uint64_t steps = 0; ///< mini-batches trained, by all workers
  std::uint64_t samples = 0;
  double epochs = 0;         ///< the steps in passes over the training set
  std::uint64_t updates = 0; ///< versions of the weights; of the shard that made most
  std::string data;
  std::shared_ptr<const data_reading> reading{}; ///< null if a program made the data
  std::string optimizer;
  double learning_rate = 0;          ///< before its schedule
  std::size_t batch = 0;             ///< samples in a mini-batch of one worker
  std::uint32_t shards = 0;          ///< parameter actors
  double wall_seconds = 0;           ///< of training alone; of all processes, if the run was resumed
  std::optional<double> final_loss;  ///< mean over the samples of each worker's last steps (loss_tail)
  std::optional<double> last_loss{}; ///< the least of the workers' last steps; in no file
  double nonsense_above = std::numeric_limits<double>::infinity(); ///< for a loss; in no file
  std::optional<double> test_loss;                                 ///< mean over the test samples
  std::optional<double> test_accuracy;                             ///< where classes are predicted
  std::optional<double> test_rmse;       ///< where numbers are predicted: the root of the mean squared error
  std::optional<double> validation_loss; ///< of samples held out for it, as these three
  std::optional<double> validation_accuracy;
  std::optional<double> validation_rmse;
  /// The test during the run whose weights were kept as those of the run; absent if they are the last ones.
  std::optional<best_test> best;
  std::optional<tests_made> tested;  ///< none: the weights were not tested
  std::optional<gpu_figures> gpus;   ///< none: no worker of this process is on a GPU
  std::optional<std::string> sample; ///< a text that the trained model wrote
  gradient_ledger ledger;
  std::optional<shard_ledger> kept_ledger; ///< of a shard that is left, if others are lost
  std::vector<late_figures> late;          ///< while the run goes on
  staleness_histogram staleness;           ///< version gap of each gradient, on each shard
  staleness_histogram discarded_staleness; ///< of discarded gradients, which `staleness` leaves out
  std::vector<exchange_figures> exchanges; ///< by shard, then worker
  time_split times;                        ///< of all exchanges, each computation counted once
  /// Two figures of the sampled gradients, empty if none was sampled. `weight_gap` is the distance that a
  /// shard's weights had moved since they were read, as a root mean square. `gradient_cosine` is the cosine
  /// between a gradient and a fresh one of its batch, computed at the weights to which it was applied.
  running_stat weight_gap;
  running_stat gradient_cosine;
  std::vector<sampled_figures> sampled; ///< at most most_sampled of them, by worker, step, shard
  static constexpr std::size_t most_sampled = 1024;
  wait_seconds waits;
  std::vector<wait_seconds> worker_waits; ///< of each worker, by rank
  std::vector<batch_origins> batches;     ///< of each worker, by rank; means something between processes
  std::vector<policy_switch> switches;
  std::vector<run_member> members; ///< of a run over processes, at its end as they were then; else none
  std::optional<resumed_figures> resumed;
  std::optional<checkpoint_account> checkpoints; ///< of this process, if it took any
  std::optional<recording_account> recording;    ///< if the run was recorded
  std::vector<metrics_line> curve;               ///< at most 200 of its lines, evenly thinned
  evaluation_cost evaluations;                   ///< during the run
  std::uint64_t local_steps = 0;                 ///< of a worker between two exchanges; 0: none
  std::string outer_optimizer;                   ///< of the shards, with local steps
  double outer_learning_rate = 0;
  std::optional<prescribed_delays> delays; ///< none: steps took as long as they needed
  std::string cure = "none";
  std::optional<double> mean_step_factor; ///< the mean factor of the cure; absent if the cure has none
  std::string parameters_sha256;
  std::uint64_t seed = 0;
  void add_reason(std::string_view clause); ///< adds a clause to `why`
  /// False while the run goes on and none of its shards has told what became of a gradient.
  bool knows_ledger() const;
  double steps_per_second() const { return wall_seconds > 0 ? static_cast<double>(steps) / wall_seconds : 0; }
  double samples_per_second() const {
    return wall_seconds > 0 ? static_cast<double>(samples) / wall_seconds : 0;
  }
};

/// One JSON object. Its field names are an interface: tools and papers read them.
std::string to_json(const training_report& r);

/// The histograms of staleness as lines "shard,worker,gap,count" below a header line; in hogwild without a
/// shard.
std::string staleness_csv(const training_report& r);

/// The gaps of one worker, on all shards.
staleness_histogram staleness_of(const training_report& r, std::uint32_t worker);

/// The weights of a run in progress were tested, on the samples held out if there are any, else on the test
/// samples.
struct evaluation_made {
  std::uint64_t steps = 0;          ///< trained when the weights were asked for
  double loss = 0;                  ///< mean over the samples
  std::optional<double> accuracy{}; ///< where classes are predicted
  std::optional<double> rmse{};     ///< where numbers are predicted
  double seconds = 0;               ///< that the test took, on a thread of its own
  bool held_out = false;            ///< whether the samples are those of data_split::validation
  std::string why_on_host{};        ///< in a run with a GPU: why it was not tested there, in one line
};

/// A test of the weights of a run in progress that could not be made. No figure of the run is judged by it.
struct test_left_out {
  std::uint64_t steps = 0; ///< as in evaluation_made
  std::string why;         ///< in one line
};

/// The gaps of the gradients that a line of metrics tells of, in front of that line, if there are any.
struct gaps_measured {
  std::uint64_t steps = 0; ///< as in the line
  double time_s = 0;       ///< likewise
  staleness_histogram gaps{};
};

/// Who takes part in a run over processes: with whom it begins, and then whoever comes or goes.
struct members_changed {
  std::string what;                  ///< in one line: "worker 1 has joined from 10.0.0.3:51234"
  std::uint32_t workers = 0;         ///< that are in the run now
  std::uint32_t parameter_hosts = 0; ///< likewise
};

/// What an observer of a run is told: how far it has come, a test of its weights, a switch of policy, a wait
/// that an actor names, what has become of its checkpoints when one was written or failed, the gaps that a
/// line tells of, a test that was left out, or a change of its members. A later version may add alternatives,
/// so visit it with a case for all others.
using run_event = std::variant<metrics_line, evaluation_made, policy_switch, wait_reason, checkpoint_account,
                               gaps_measured, test_left_out, members_changed>;

} // namespace mailgrad
