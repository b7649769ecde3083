#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/gradient_encoder.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>
#include <mailgrad/engine/worker/step_timer.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace mailgrad::lab {

/// What a wire format makes of the gradients of one worker on their way to the shards.
struct wire_terms {
  wire_format format{};
  bool feedback = true; ///< whether what a message lacks is kept for the next one, or lost
};

/// The gradients of one worker as the shards get them: encoded in a wire format and decoded again, by the
/// very encoder of runs over processes.
/// Threads one.
class gradient_wire {
public:
  gradient_wire(const wire_terms& terms, std::shared_ptr<const parameter_layout> layout);

  /// Puts what the shard gets in place of the gradient. Returns the bytes of its numbers. A gradient without
  /// values has the bytes of a dense one.
  std::size_t carry(std::uint32_t shard, push_gradient& x);
  /// The shard has answered. `discarded`: the worker's last gradient that it has discarded.
  void answered(std::uint32_t shard, step_number discarded) {
    if (encoder_) encoder_->answered(shard, discarded);
  }

  /// The bytes of the weights of a shard, which travel as float32.
  std::size_t weight_bytes(std::uint32_t shard) const;

private:
  std::size_t exact_bytes(std::uint32_t shard, const gradient& g) const;
  std::shared_ptr<const gradient> decoded(std::uint32_t shard, const remote::gradient_encoder::messages& m);

  const wire_terms terms_;
  const std::shared_ptr<const parameter_layout> layout_;
  std::optional<remote::gradient_encoder> encoder_; ///< none for an exact format
  object_pool<gradient> gradients_;
};

/// How long messages are under way between a worker and a shard. Both directions are alike, and a message in
/// one does not hold back one in the other.
struct link_times {
  double latency = 0;   ///< seconds from the moment at which the last byte is sent
  double bandwidth = 0; ///< bytes a second; 0: sending takes no time
};

/// What an option says of the links of all workers. Each text is a formula of the worker's number
/// (worker_formula); an empty one stands for links without that time.
struct link_formulas {
  std::string latency{};   ///< seconds, from 0 to 1e6
  std::string bandwidth{}; ///< bytes a second, from 1 to 1e15

  bool any() const noexcept { return !latency.empty() || !bandwidth.empty(); }
};

/// The times of the links of one worker.
/// Errors  std::invalid_argument in one line: a text is no formula, or gives this worker no such number.
link_times times_of(const link_formulas& f, rank worker, std::uint32_t workers);

struct worker_link_options {
  caf::actor shard;
  std::uint32_t shard_index = 0;
  link_times times{};
  std::shared_ptr<gradient_wire> wire; ///< of the worker, for all of its links
  std::shared_ptr<const time_source> time;
  std::shared_ptr<step_timer> timer; ///< by the same clock
};

/// The link between a worker and a shard of a run in virtual time. It stands for the shard to the worker, and
/// for the worker to the shard.
///
///     worker --push_gradient--> link ==encoded, later==> shard
///     worker <==later== link <--shard_weights-- shard
///
/// Guarantees  messages of one direction arrive in the order in which they were sent. A message is sent when
///             the one before it has left, takes its bytes by the bandwidth, and arrives after the latency.
///             Only gradients and weights have bytes. On a link that takes no time they arrive at once.
///             Whether the shard will discard a gradient is asked and told in no time on any link.
/// Never       waits.
class worker_link {
public:
  static constexpr const char* name = "mailgrad.worker-link";

  worker_link(caf::event_based_actor* self, worker_link_options options)
      : self_(self), options_(std::move(options)) {}
  caf::behavior make_behavior();

private:
  using arrival = std::function<void()>;

  /// One direction.
  struct way {
    instant free{0}; ///< when the last message has left
    std::deque<std::pair<instant, arrival>> under_way;
  };

  void on_join(const join_shard& x);
  void on_gradient(const push_gradient& x);
  void on_weights(const shard_weights& x);
  void carry(way& by, std::size_t bytes, arrival arrive);
  void deliver_due(way& by);

  caf::event_based_actor* self_;
  worker_link_options options_;
  caf::actor device_; ///< of the worker
  way up_, down_;
  std::optional<instant> under_way_up_; ///< how long the present gradient was
  std::optional<instant> under_way_;    ///< how long the gradient before and its answer were, both together
};

} // namespace mailgrad::lab
