#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/worker/spanning_replica.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/worker/gradient_comparison.hpp>
#include <mailgrad/engine/worker/hogwild_writer.hpp>
#include <mailgrad/engine/worker/local_steps.hpp>
#include <mailgrad/engine/worker/replica.hpp>

#include <memory>
#include <optional>
#include <vector>

namespace mailgrad {

/// What a device actor is born with.
struct device_actor_options {
  rank worker;
  stream where = host_stream{};
  std::shared_ptr<step_model> model;          ///< nobody else holds it once the actor lives
  std::shared_ptr<spanning_replica> pieces{}; ///< `model` once more, if it spans several devices
  std::vector<caf::actor> shards;             ///< none if all of the run is hogwild
  std::shared_ptr<hogwild_writer> writer;     ///< for hogwild; nobody else holds it once the actor lives
  bool direct = false;                        ///< hogwild comes first
  std::vector<std::size_t> shard_begins; ///< where each shard begins in the shared block; {0} without shards
  std::shared_ptr<local_steps> local;    ///< with local steps only; nobody else holds it once the actor lives
  double clip_norm = 0;                  ///< largest global norm of a gradient; 0: any
  caf::actor feeder;
  caf::actor tracker;
  caf::actor coordinator;
  std::shared_ptr<const time_source> time;
  std::shared_ptr<trace_track> trace{}; ///< to record into; nobody else holds it once the actor lives
  /// Every so many steps the gradient is compared with a fresh one of its batch, which costs one more step;
  /// until then it and the weights it was computed from are held. 0: never.
  std::uint64_t sample_gap = 0;
};

/// Owns a device and a replica of the model: computes a gradient for each mini-batch, pushes it to every
/// shard, and takes the shards' answers as the weights of the next step.
///
/// Guarantees  one round trip a step and shard; a gradient is pushed to all shards or to none; every weight
///             it held is let go before the push, so that a shard nobody else reads may update in place.
///             Samples     the gradient of each sample_gap-th step goes with the weights it was computed
///             from. As soon as the worker knows which weights it met on every shard, and waits for none, it
///             computes the batch once more at these and notes the cosine.
/// Never       blocks: a step on a CPU is one handler, a step on a GPU ends with a message.
///
///     joining --weights of all shards, a batch--> computing --pushed--> waiting --weights of all, a batch-->
///     computing
///                                                     |                    \--data exhausted--> finished
///                                                     +--loss not finite, kernel failed--> finished
///
/// With local steps it pushes the difference that several steps of its own have made, as if that were a
/// gradient. A switch of policy pauses it between two steps: what it holds is out of date, and it waits for
/// the weights of the next epoch.
class device_actor {
public:
  static constexpr const char* name = "mailgrad.device-actor";

  device_actor(caf::event_based_actor* self, device_actor_options options);
  caf::behavior make_behavior();

private:
  /// The weights of one shard as this worker last got them.
  struct held_weights {
    std::uint64_t version = 0;
    std::shared_ptr<const block> values;
    instant read{0}; ///< how long it took to get them into the model
  };

  caf::behavior training();
  void take(const step_computed& x);
  void compute(std::shared_ptr<const batch> inputs, const std::shared_ptr<gradient>& out,
               const completion& done);
  void on_weights(const shard_weights& x);
  void on_batch(const dealt_batch& x);
  void pause_if_asked();
  void start_step_if_ready();
  void end_starvation();
  void start_step();
  void finish_step();
  void start_comparison();
  void finish_comparison();
  void trace_answer(const shard_weights& x, instant taken);
  instant note_computed();
  void push(std::shared_ptr<const gradient> values, float scale, instant computed_at);
  void step_locally(float scale);
  bool go_on_locally();
  bool push_difference();
  void write(float scale);
  void fail(std::uint64_t step, const std::string& why);
  void finish();
  template <class Notice>
  void end_with(Notice notice);
  float clip() const;
  void notify_progress(instant computed);
  void name_waits_to(const caf::actor& asker) const;

  caf::event_based_actor* self_;
  device_actor_options options_;
  object_pool<gradient> gradients_;
  std::shared_ptr<gradient> computing_; ///< the gradient of the step at hand
  gradient_comparison comparison_;
  std::shared_ptr<gradient> comparing_; ///< the fresh gradient, while it is computed
  instant comparing_since_{0};
  std::shared_ptr<const batch> next_batch_;
  std::vector<held_weights> held_; ///< by shard
  std::size_t missing_;            ///< shards whose weights are still to come
  bool exhausted_ = false;         ///< the feeder has nothing more
  bool finished_ = false;
  std::uint64_t step_ = 0;                  ///< what was produced for the shards: gradients, or differences
  std::uint64_t batches_ = 0;               ///< begun
  std::uint64_t epoch_ = 0;                 ///< of the policy
  std::optional<std::uint64_t> next_epoch_; ///< asked to pause for it
  bool direct_ = false;                     ///< hogwild now: gradients go into the shared block
  bool next_direct_ = false;                ///< and in the next epoch
  std::size_t batch_size_ = 0;
  instant computing_since_{0};
  std::optional<instant> starved_since_; ///< weights are there, a batch is not
  instant waiting_since_{0};
  std::optional<instant> at_fence_since_; ///< a switch of policy keeps it from its next step
  instant barrier_wait_of_step_{0};
  instant bound_wait_of_step_{0};
  worker_report report_;
  worker_progress unreported_;
  staleness_histogram gaps_; ///< hogwild: not yet sent to the tracker
  instant last_notice_{0};
  instant computed_{0};                    ///< time in steps since the last push
  std::int64_t barrier_wait_reported_ = 0; ///< ns, in notices so far
};

} // namespace mailgrad
