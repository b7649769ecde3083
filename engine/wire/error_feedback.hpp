#pragma once

#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/optim/identity.hpp>

namespace mailgrad {

/// The bytes of an encoded gradient. They are written once, so who sends them may hold them.
using wire_message = std::shared_ptr<const std::vector<std::byte>>;

/// The messages of a worker to a shard whose fate it does not know yet, by the step of their gradient.
/// Errors  std::invalid_argument for a step that is in flight already, or that is not.
/// Threads one owner calls; messages may be released on any thread.
class messages_in_flight {
public:
  /// Memory for a message that nobody else holds. A steady step takes none from the heap.
  std::shared_ptr<std::vector<std::byte>> memory(std::size_t bytes) {
    auto free = memory_.take();
    free->resize(bytes);
    return free;
  }

  void require_new(step_number step) const;
  void sent(step_number step, wire_message message) {
    require_new(step);
    all_.emplace_back(step, std::move(message));
  }
  wire_message settled(step_number step); ///< the shard has told what became of it

  std::size_t size() const noexcept { return all_.size(); }

private:
  object_pool<std::vector<std::byte>> memory_{[] { return std::make_shared<std::vector<std::byte>>(); }};
  using entry = std::pair<step_number, wire_message>;
  std::vector<entry> all_; ///< a few
};

/// A worker's side of a lossy format, for one range of the dense weights: what a message lacks is kept here
/// and added to the next gradient. If a shard discards a gradient, all that its message held comes back.
///
///     send(step, g)        sends q = Q(g + r), and keeps r = g + r - q
///     applied(step)        the shard has applied or merged it: q is forgotten
///     give_back(step)      the shard has discarded it: r = r + q
///
/// So the gradients of a worker add up to what was applied, plus the residual, plus what is in flight. Each
/// sum of two floats is rounded; nothing else is lost. Clipping has been multiplied into the gradients.
///
/// float32 lacks nothing: it has no residual, and a discarded gradient is gone, as it is without a network.
/// Source  Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019, Algorithm 2. Differs: several
///         messages may be in flight, and discarded ones are given back.
/// Units   memory: 4 bytes a weight, as many again from the first give_back() on, and the messages in flight.
/// Threads one caller at a time; messages may be released on any thread.
class error_feedback {
public:
  error_feedback(const wire_format& f, std::size_t weights)
      : format_(f), weights_(weights), residual_(is_lossy(f) ? weights : 0) {
    encoded_bytes(f, weights); // refuses more weights than a message can count
  }
  /// Null if a number is not finite and the format cannot say so: nothing has changed then.
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

/// The same for the rows of one table. What a row lacks waits until the row comes again.
/// Units   memory: as much as the table, and the messages in flight.
/// Threads one caller at a time; messages may be released on any thread.
class row_feedback {
public:
  row_feedback(const wire_format& f, const table_extent& table);

  /// Null if a number is not finite and the format cannot say so: nothing has changed then.
  /// Errors  shape_error for rows that the table lacks or of another width; as error_feedback::send().
  wire_message send(step_number step, const gradient_rows& part);
  /// Errors  std::invalid_argument for a step that is not in flight.
  void applied(step_number step) { in_flight_.settled(step); }
  void give_back(step_number step);

  std::span<const float> residual() const noexcept { return residual_; } ///< empty for float32
  std::size_t in_flight() const noexcept { return in_flight_.size(); }

private:
  wire_format format_;
  table_extent table_;
  std::vector<float> residual_;
  std::vector<float> scratch_;
  decoded_rows decoded_;
  messages_in_flight in_flight_;
};

} // namespace mailgrad
