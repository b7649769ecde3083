#include <mailgrad/engine/wire/row_feedback.hpp>

#include <cmath>

namespace mailgrad {

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
