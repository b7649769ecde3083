#pragma once

#include <mailgrad/actors/remote/gradient_encoder.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>
#include <mailgrad/graph/parameter_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace mailgrad::lab {

/// What a wire format makes of the gradients of one worker on their way to the shards.
struct wire_terms {
  wire_format format{};
  bool feedback = true; ///< whether what a message lacks is kept for the next one, or lost
};

/// The gradients of one worker as the shards get them: encoded in a wire format and decoded again, by the
/// very encoder of runs over processes.
///
/// Threads one.
class gradient_wire {
public:
  gradient_wire(const wire_terms& terms, std::shared_ptr<const parameter_layout> layout);

  /// Puts what the shard gets in place of the gradient. Returns the bytes of its numbers. A gradient without
  /// values has the bytes of a dense one.
  std::size_t carry(std::uint32_t shard, push_gradient& x);
  /// The shard has answered. `discarded`: the worker's last gradient that it has discarded.
  void answered(std::uint32_t shard, step_number discarded);

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

} // namespace mailgrad::lab
