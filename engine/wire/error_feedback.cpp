#include <mailgrad/engine/wire/error_feedback.hpp>

#include <mailgrad/tensor/error.hpp>

#include <cmath>

namespace mailgrad {

error_feedback::error_feedback(const wire_format& f, std::size_t weights)
    : format_(f), weights_(weights), residual_(is_lossy(f) ? weights : 0) {
  encoded_bytes(f, weights); // refuses more weights than a message can count
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

} // namespace mailgrad
