#include <mailgrad/kernels/host/cross_entropy.hpp>

#include <mailgrad/kernels/host/softmax_row.hpp>

#include <fmt/format.h>

#include <stdexcept>

namespace mailgrad::host {

namespace {

[[noreturn]] void refuse(std::int32_t label, std::size_t columns) {
  throw std::out_of_range(fmt::format("label {}, but the logits have {} classes", label, columns));
}

/// The sum of the losses of a few rows.
double loss_of_rows(const float* logits, const std::int32_t* labels, float* probabilities, std::size_t rows,
                    std::size_t columns) {
  double total = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    float* const shifted = probabilities + row * columns;
    shift_row(logits + row * columns, shifted, columns);
    const auto label = static_cast<std::size_t>(labels[row]); // a negative label becomes too large
    if (label >= columns) refuse(labels[row], columns);
    total -= static_cast<double>(shifted[label]);
  }
  exponentiate(probabilities, rows * columns);
  for (std::size_t row = 0; row < rows; ++row)
    total += static_cast<double>(approximate::log(normalise_row(probabilities + row * columns, columns)));
  return total;
}

} // namespace

void cross_entropy(const float* logits, const std::int32_t* labels, float* loss, float* probabilities,
                   std::size_t rows, std::size_t columns) {
  double total = 0; // a double, since there may be very many rows
  const std::size_t block = rows_at_once(columns);
  for (std::size_t first = 0; first < rows; first += block)
    total += loss_of_rows(logits + first * columns, labels + first, probabilities + first * columns,
                          std::min(block, rows - first), columns);
  *loss = static_cast<float>(total / static_cast<double>(rows));
}

void cross_entropy_gradient(const float* probabilities, const std::int32_t* labels, const float* d_loss,
                            float* d_logits, std::size_t rows, std::size_t columns) {
  const float factor = *d_loss / static_cast<float>(rows);
#pragma omp simd
  for (std::size_t i = 0; i < rows * columns; ++i) d_logits[i] = probabilities[i] * factor;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto label = static_cast<std::size_t>(labels[row]);
    if (label < columns) d_logits[row * columns + label] -= factor;
  }
}

} // namespace mailgrad::host
