#pragma once

#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/engine/wire/messages_in_flight.hpp>

#include <span>
#include <vector>

namespace mailgrad {

/// A worker's side of a lossy format, for one range of the dense weights: what a message lacks is kept here
/// and added to the next gradient. If a shard discards a gradient, all that its message held comes back.
///
///     send(step, g)        sends q = Q(g + r), and keeps r = g + r - q
///     applied(step)        the shard has applied or merged it: q is forgotten
///     give_back(step)      the shard has discarded it: r = r + q
///
/// So the gradients of a worker add up to what was applied, plus the residual, plus what is in flight. Each
/// sum of two floats is rounded; nothing else is lost. The gradients are those that the shard would apply, so
/// a factor of clipping has been multiplied in.
///
/// float32 lacks nothing: it has no residual, and a discarded gradient is gone, as it is without a network.
///
/// Source  Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019, Algorithm 2. Differs: several
///         messages may be in flight, and discarded ones are given back.
/// Units   memory: 4 bytes a weight, as many again from the first give_back() on, and the messages in flight.
/// Threads one caller at a time; messages may be released on any thread.
class error_feedback {
public:
  error_feedback(const wire_format& f, std::size_t weights);

  /// Null if a number is not finite and the format cannot say so: nothing has changed then.
  ///
  /// Errors  shape_error for a gradient of another length; std::invalid_argument for a step in flight.
  wire_message send(step_number step, std::span<const float> gradient);

  /// Errors  std::invalid_argument for a step that is not in flight.
  void applied(step_number step) { in_flight_.settled(step); }
  /// Numbers that were sent as NaN or infinite took nothing from the residual, and give nothing back.
  void give_back(step_number step);

  std::span<const float> residual() const noexcept { return residual_; } ///< empty for float32
  std::size_t in_flight() const noexcept { return in_flight_.size(); }

private:
  wire_format format_;
  std::size_t weights_;
  std::vector<float> residual_;
  std::vector<float> decoded_;
  messages_in_flight in_flight_;
};

} // namespace mailgrad
