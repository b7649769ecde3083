#pragma once

#include <mailgrad/engine/wire/encoded_rows.hpp>
#include <mailgrad/engine/wire/messages_in_flight.hpp>

#include <span>
#include <vector>

namespace mailgrad {

/// What error_feedback is for dense weights, for the rows of one table. What a row lacks waits until the row
/// comes again.
///
/// Units   memory: as much as the table, and the messages in flight.
/// Threads one caller at a time; messages may be released on any thread.
class row_feedback {
public:
  row_feedback(const wire_format& f, const table_extent& table);

  /// Null if a number is not finite and the format cannot say so: nothing has changed then.
  ///
  /// Errors  shape_error for rows that the table lacks, or of another width; std::invalid_argument for a step
  ///         in flight.
  wire_message send(step_number step, const gradient_rows& part);

  /// Errors  std::invalid_argument for a step that is not in flight.
  void applied(step_number step) { in_flight_.settled(step); }
  void give_back(step_number step);

  std::span<const float> residual() const noexcept {
    return residual_;
  } ///< float32[rows, width]; empty for float32
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
