#include <mailgrad/engine/wire/error_feedback.hpp>

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace mailgrad {

void messages_in_flight::require_new(step_number step) const {
  if (std::ranges::find(all_, step, &entry::first) != all_.end())
    throw std::invalid_argument(fmt::format("the gradient of step {} is in flight already", step.value));
}

wire_message messages_in_flight::settled(step_number step) {
  const auto found = std::ranges::find(all_, step, &entry::first);
  if (found == all_.end())
    throw std::invalid_argument(fmt::format("no gradient of step {} is in flight", step.value));
  wire_message message = std::move(found->second);
  all_.erase(found);
  return message;
}

wire_message error_feedback::send(step_number step, std::span<const float> gradient) {
  if (gradient.size() != weights_)
    throw shape_error("error_feedback", shape{gradient.size()}, shape{weights_});
  in_flight_.require_new(step);
  const auto message = in_flight_.memory(encoded_bytes(format_, weights_));
  if (!encode_numbers(format_, gradient, residual_, *message)) return nullptr;
  in_flight_.sent(step, message);
  return message;
}

void error_feedback::give_back(step_number step) {
  const wire_message message = in_flight_.settled(step);
  if (!is_lossy(format_)) return;
  decoded_.resize(weights_);
  decode_numbers(format_, *message, decoded_);
  for (std::size_t i = 0; i < weights_; ++i) residual_[i] += std::isfinite(decoded_[i]) ? decoded_[i] : 0.0F;
}

row_feedback::row_feedback(const wire_format& f, const table_extent& table)
    : format_(f), table_(table), residual_(is_lossy(f) ? table.rows * table.width : 0) {}

wire_message row_feedback::send(step_number step, const gradient_rows& part) {
  in_flight_.require_new(step);
  const std::size_t rows = listed_rows(part).rows.size();
  const auto message = in_flight_.memory(encoded_row_bytes(format_, rows, table_.width));
  if (!encode_rows(format_, part, table_, residual_, scratch_, *message)) return nullptr;
  in_flight_.sent(step, message);
  return message;
}

void row_feedback::give_back(step_number step) {
  const wire_message message = in_flight_.settled(step);
  if (!is_lossy(format_)) return;
  decode_rows(format_, *message, table_, decoded_);
  for (std::size_t i = 0; i < decoded_.rows.size(); ++i) {
    float* row = residual_.data() + static_cast<std::size_t>(decoded_.rows[i]) * table_.width;
    const float* values = decoded_.values.data() + i * table_.width;
    for (std::size_t c = 0; c < table_.width; ++c) row[c] += std::isfinite(values[c]) ? values[c] : 0.0F;
  }
}

} // namespace mailgrad
