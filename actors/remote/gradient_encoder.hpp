#pragma once

#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/wire/error_feedback.hpp>

#include <mutex>

namespace mailgrad::remote {

/// The rows of a table that lie in one shard, in their order.
struct rows_of_shard {
  std::vector<std::int32_t> rows;
  std::vector<float> values;
};

rows_of_shard rows_in(const parameter_layout& layout, const gradient_rows& part, std::uint32_t shard);
/// Those rows as float32.
std::string encoded_rows_of(const parameter_layout& layout, const gradient_rows& part, std::uint32_t shard);
/// Adds the rows of one table to a gradient, from the bytes of a peer.
/// Errors  archive_error: there is no such table, or the bytes are no rows of it.
void decode_table(const wire_format& format, const parameter_layout& layout, std::size_t variable,
                  std::string_view rows, gradient& into);

/// A worker's side of a lossy wire format: it turns gradients into messages, and keeps for each shard what
/// the messages lack (error_feedback.hpp).
///
/// A worker has one gradient under way at a shard. The weights that answer it say whether the shard has
/// discarded it; then all that its message held is added to the next one.
/// Units   memory: a float a weight, as many again once a gradient is discarded, and a message a shard.
/// Threads any.
class gradient_encoder {
public:
  gradient_encoder(wire_format f, std::shared_ptr<const parameter_layout> layout);

  struct messages {
    wire_message dense;
    std::vector<std::pair<std::size_t, wire_message>> tables; ///< by variable
  };

  const wire_format& format() const noexcept { return format_; }
  /// Encodes the part of a gradient that belongs to a shard: its dense range, and rows of tables that lie in
  /// it. Nothing, and nothing has changed, if a number is not finite: then the gradient goes as it is, and is
  /// to the shard what it would be in one process.
  /// Errors  shape_error for parts that are not of this layout.
  std::optional<messages> encode(std::uint32_t shard, step_number step, std::span<const float> dense,
                                 std::span<const gradient_rows> tables);
  /// The same for a whole gradient, with its factor of clipping multiplied in. Nothing also if it has no
  /// values for all weights, or several devices add to it.
  std::optional<messages> encode(std::uint32_t shard, const push_gradient& x);
  /// Weights of a shard have come. `discarded`: the last gradient of this worker that the shard has
  /// discarded.
  void answered(std::uint32_t shard, step_number discarded);

private:
  struct line {
    std::optional<error_feedback> dense;
    std::map<std::size_t, row_feedback> tables; ///< by variable, from its first rows on
    std::optional<step_number> under_way;
  };

  void settle(line& l);

  const wire_format format_;
  const std::shared_ptr<const parameter_layout> layout_;
  std::mutex mutex_;
  std::vector<line> lines_; ///< by shard
};

/// Whether a device of a worker has nothing to add: the first one, and each that computes no part of a sum.
bool adds_nothing(const dense_addend& a);

/// Where the dense part of a shard lies.
shard_range dense_range_of(const parameter_layout& layout, std::uint32_t shard);

} // namespace mailgrad::remote
