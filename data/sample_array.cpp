#include <mailgrad/data/sample_array.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace mailgrad {

void parsed_limit::require(const std::filesystem::path& file, std::uint64_t found) const {
  if (found <= bytes) return;
  throw_malformed(file,
                  fmt::format("expected samples that take at most {} of memory, found more; take a part of "
                              "the file, or raise --data-limit (open_options::limit)",
                              byte_count(bytes).text()));
}

namespace {

void require_fitting(const shape& dims, const void* first, std::size_t count) {
  const auto refuse = [](const std::string& why) {
    throw std::invalid_argument(fmt::format("sample_array: {}", why));
  };
  if (dims.rank() == 0) refuse("the shape has no extent; its first one counts the samples");
  if (count != dims.size())
    refuse(fmt::format("expected {} values for shape {}, found {}", dims.size(), to_string(dims), count));
  if (first == nullptr && count > 0) refuse(fmt::format("{} values at a null pointer", count));
}

/// Checks the span before the first value is read, then copies it.
template <class T>
std::vector<T> copy_of(const shape& dims, std::span<const T> values) {
  require_fitting(dims, values.data(), values.size());
  return {values.begin(), values.end()};
}

} // namespace

sample_array::sample_array(const shape& dims, dtype type, const void* first, std::size_t count,
                           std::shared_ptr<const void> owner)
    : dims_(dims), type_(type), first_(first), owner_(std::move(owner)) {
  require_fitting(dims, first, count);
}

// Moving a vector does not move its elements, so the address taken before the move stays valid.
sample_array::sample_array(const shape& dims, std::vector<float> values)
    : sample_array(dims, dtype::float32, values.data(), values.size(), nullptr) {
  owner_ = std::make_shared<const std::vector<float>>(std::move(values));
}

sample_array::sample_array(const shape& dims, std::vector<std::int32_t> values)
    : sample_array(dims, dtype::int32, values.data(), values.size(), nullptr) {
  owner_ = std::make_shared<const std::vector<std::int32_t>>(std::move(values));
}

sample_array::sample_array(const shape& dims, std::span<const float> values)
    : sample_array(dims, copy_of(dims, values)) {}

sample_array::sample_array(const shape& dims, std::span<const std::int32_t> values)
    : sample_array(dims, copy_of(dims, values)) {}

sample_array sample_array::borrow(const shape& dims, std::span<const float> values,
                                  std::shared_ptr<const void> owner) {
  return {dims, dtype::float32, values.data(), values.size(), std::move(owner)};
}

sample_array sample_array::borrow(const shape& dims, std::span<const std::int32_t> values,
                                  std::shared_ptr<const void> owner) {
  return {dims, dtype::int32, values.data(), values.size(), std::move(owner)};
}
shape sample_array::sample_dims() const { return shape(std::span(dims_.begin() + 1, dims_.end())); }

sample_array sample_array::slice(std::size_t first, std::size_t count) const {
  sample_array part = *this;
  part.dims_[0] = count;
  if (first_ != nullptr)
    part.first_ = static_cast<const std::byte*>(first_) + first * sample_dims().size() * byte_size(type_);
  return part;
}

/// The loop counts without a branch for each value, because a data set may have many millions.
std::optional<std::size_t> first_not_finite(std::span<const float> values) noexcept {
  constexpr std::size_t together = 4096;
  for (std::size_t first = 0; first < values.size(); first += together) {
    const auto part = values.subspan(first, std::min(together, values.size() - first));
    int infinite = 0;
#pragma omp simd reduction(+ : infinite)
    for (std::size_t i = 0; i < part.size(); ++i)
      infinite += std::abs(part[i]) <= std::numeric_limits<float>::max() ? 0 : 1;
    if (infinite == 0) continue;
    const auto found = std::ranges::find_if_not(part, [](float x) { return std::isfinite(x); });
    return first + static_cast<std::size_t>(found - part.begin());
  }
  return {};
}

void require_finite(std::span<const float> values, std::size_t width, const std::string& what) {
  const auto at = first_not_finite(values);
  if (!at) return;
  const std::string sample = width > 0 ? fmt::format(" of sample {}", *at / width) : "";
  throw std::invalid_argument(fmt::format("dataset: {} {}{} is {}; numbers must be finite", what,
                                          width > 0 ? *at % width : *at, sample, values[*at]));
}

} // namespace mailgrad
