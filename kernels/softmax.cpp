#include <mailgrad/kernels/gpu_body.hpp>
#include <mailgrad/kernels/host/rows.hpp>
#include <mailgrad/kernels/softmax.hpp>

#include <fmt/format.h>

#include <stdexcept>

namespace mailgrad {

void softmax(const stream& s, const float* x, float* y, std::size_t rows, std::size_t columns) {
  if (on_gpu<softmax>(s, x, y, rows, columns)) return;
  const std::size_t block = rows_at_once(columns);
  for (std::size_t first = 0; first < rows; first += block) {
    const std::size_t count = std::min(block, rows - first);
    float* const to = y + first * columns;
    for (std::size_t r = 0; r < count; ++r) shift_row(x + (first + r) * columns, to + r * columns, columns);
    exponentiate(to, count * columns);
    for (std::size_t r = 0; r < count; ++r) normalise_row(to + r * columns, columns);
  }
}

void softmax_gradient(const stream& s, const float* y, const float* dy, float* dx, std::size_t rows,
                      std::size_t columns) {
  if (on_gpu<softmax_gradient>(s, y, dy, dx, rows, columns)) return;
  for (std::size_t row = 0; row < rows; ++row, y += columns, dy += columns, dx += columns) {
    const float projection = row_sum(columns, [=](std::size_t i) { return y[i] * dy[i]; });
#pragma omp simd
    for (std::size_t i = 0; i < columns; ++i) dx[i] = y[i] * (dy[i] - projection);
  }
}

namespace {

[[noreturn]] void refuse(std::int32_t label, std::size_t columns) {
  throw std::out_of_range(fmt::format("label {}, but the logits have {} classes", label, columns));
}

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

void cross_entropy(const stream& s, const float* logits, const std::int32_t* labels, float* loss,
                   float* probabilities, std::size_t rows, std::size_t columns) {
  if (on_gpu<cross_entropy>(s, logits, labels, loss, probabilities, rows, columns)) return;
  double total = 0; // a double, since there may be very many rows
  const std::size_t block = rows_at_once(columns);
  for (std::size_t first = 0; first < rows; first += block)
    total += loss_of_rows(logits + first * columns, labels + first, probabilities + first * columns,
                          std::min(block, rows - first), columns);
  *loss = static_cast<float>(total / static_cast<double>(rows));
}

void cross_entropy_gradient(const stream& s, const float* probabilities, const std::int32_t* labels,
                            const float* d_loss, float* d_logits, std::size_t rows, std::size_t columns) {
  if (on_gpu<cross_entropy_gradient>(s, probabilities, labels, d_loss, d_logits, rows, columns)) return;
  const float factor = *d_loss / static_cast<float>(rows);
#pragma omp simd
  for (std::size_t i = 0; i < rows * columns; ++i) d_logits[i] = probabilities[i] * factor;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto label = static_cast<std::size_t>(labels[row]);
    if (label < columns) d_logits[row * columns + label] -= factor;
  }
}

void count_right_labels(const stream& s, const float* logits, const std::int32_t* labels, std::int32_t* right,
                        std::size_t rows, std::size_t columns) {
  if (on_gpu<count_right_labels>(s, logits, labels, right, rows, columns)) return;
  std::int32_t count = 0;
  for (std::size_t row = 0; row < rows; ++row, logits += columns)
    if (std::max_element(logits, logits + columns) - logits == labels[row]) ++count;
  *right = count;
}

} // namespace mailgrad
