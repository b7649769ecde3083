#include <mailgrad/data/dataset.hpp>

#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace mailgrad {

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(std::string("dataset: ") + what);
}

/// Counted without a branch for each value, since a set may have many millions.
void require_finite(std::span<const float> values, std::size_t width, const char* what) {
  constexpr std::size_t together = 4096;
  for (std::size_t first = 0; first < values.size(); first += together) {
    const auto part = values.subspan(first, std::min(together, values.size() - first));
    int infinite = 0;
#pragma omp simd reduction(+ : infinite)
    for (std::size_t i = 0; i < part.size(); ++i)
      infinite += std::abs(part[i]) <= std::numeric_limits<float>::max() ? 0 : 1;
    if (infinite == 0) continue;
    const auto found = std::ranges::find_if_not(part, [](float x) { return std::isfinite(x); });
    const std::size_t at = first + static_cast<std::size_t>(found - part.begin());
    const std::string sample = width > 0 ? " of sample " + std::to_string(at / width) : "";
    throw std::invalid_argument(std::string("dataset: ") + what + ' ' +
                                std::to_string(width > 0 ? at % width : at) + sample + " is " +
                                std::to_string(*found) + "; features must be finite");
  }
}

std::size_t rows(const shape& dims, std::size_t values) {
  require(dims.rank() < shape::max_rank, "a sample has as many extents as a batch may have");
  require(dims.size() > 0, "a sample has no features");
  require(values % dims.size() == 0, "the values do not fill whole samples");
  return values / dims.size();
}

std::size_t rows(const byte_features& f) {
  require(std::isfinite(f.scale * std::numeric_limits<std::uint8_t>::max()),
          "the scale of the bytes leads to numbers that are not finite");
  return rows(f.dims, f.values.size());
}

std::size_t rows(const float_features& f) {
  const std::size_t count = rows(f.dims, f.values.size());
  require_finite(f.values, f.dims.size(), "number");
  return count;
}

std::size_t rows(const sparse_features& f) {
  require(!f.offsets.empty() && f.offsets.front() == 0 && f.offsets.back() == f.columns.size() &&
              f.columns.size() == f.values.size() && std::ranges::is_sorted(f.offsets),
          "offsets, columns and values of the sparse rows disagree");
  require(std::ranges::all_of(
              f.columns, [&](std::int32_t c) { return c >= 0 && static_cast<std::size_t>(c) < f.width; }),
          "a column lies outside the width");
  require_finite(f.values, 0, "entry");
  return f.offsets.size() - 1;
}

std::size_t rows(const token_windows& f) {
  require(f.length > 0 && f.stride > 0, "a window needs a length and a stride");
  return f.tokens.size() <= f.length ? 0 : (f.tokens.size() - f.length - 1) / f.stride + 1;
}

std::size_t rows(const categorical_features& f) {
  const std::size_t k = f.counts.size();
  require(k > 0, "a sample has no categories");
  require(f.categories.size() % k == 0, "the categories do not fill whole samples");
  const std::size_t count = f.categories.size() / k;
  require(f.width == 0 ? f.values.empty()
                       : f.values.size() % f.width == 0 && f.values.size() / f.width == count,
          "there are not as many numbers as the samples need");
  require_finite(f.values, f.width, "number");
  for (std::size_t i = 0; i < f.categories.size(); ++i)
    require(f.categories[i] >= 0 && static_cast<std::size_t>(f.categories[i]) < f.counts[i % k],
            "a category lies outside its count");
  return count;
}

shape dims_of(const byte_features& f) { return f.dims; }
shape dims_of(const float_features& f) { return f.dims; }
shape dims_of(const sparse_features& f) { return {f.width}; }
shape dims_of(const token_windows& f) { return {f.length}; }
shape dims_of(const categorical_features& f) { return {f.width}; }

std::size_t bytes_of(const byte_features& f) { return f.values.capacity(); }
std::size_t bytes_of(const float_features& f) { return f.values.capacity() * sizeof(float); }
std::size_t bytes_of(const token_windows& f) { return f.tokens.capacity() * sizeof(std::int32_t); }
std::size_t bytes_of(const categorical_features& f) {
  return f.categories.capacity() * sizeof(std::int32_t) + f.values.capacity() * sizeof(float);
}
std::size_t bytes_of(const sparse_features& f) {
  return f.offsets.capacity() * sizeof(std::size_t) + f.columns.capacity() * sizeof(std::int32_t) +
         f.values.capacity() * sizeof(float);
}

template <class T>
std::vector<T> cut(const std::vector<T>& all, std::size_t first, std::size_t count) {
  return std::vector<T>(all.data() + first, all.data() + first + count);
}

byte_features cut(const byte_features& f, std::size_t first, std::size_t count) {
  const std::size_t n = f.dims.size();
  return {f.dims, cut(f.values, first * n, count * n), f.scale};
}

float_features cut(const float_features& f, std::size_t first, std::size_t count) {
  const std::size_t n = f.dims.size();
  return {f.dims, cut(f.values, first * n, count * n)};
}

sparse_features cut(const sparse_features& f, std::size_t first, std::size_t count) {
  const std::size_t begin = f.offsets[first];
  const std::size_t entries = f.offsets[first + count] - begin;
  sparse_features part{f.width, cut(f.offsets, first, count + 1), cut(f.columns, begin, entries),
                       cut(f.values, begin, entries)};
  for (std::size_t& offset : part.offsets) offset -= begin;
  return part;
}

token_windows cut(const token_windows& f, std::size_t first, std::size_t count) {
  const std::size_t tokens = count == 0 ? 0 : (count - 1) * f.stride + f.length + 1;
  return {cut(f.tokens, first * f.stride, tokens), f.length, f.stride};
}

categorical_features cut(const categorical_features& f, std::size_t first, std::size_t count) {
  const std::size_t k = f.counts.size();
  return {f.counts, cut(f.categories, first * k, count * k), f.width,
          cut(f.values, first * f.width, count * f.width)};
}

bool in_range(std::span<const std::int32_t> labels, std::size_t classes) {
  return std::ranges::all_of(
      labels, [=](std::int32_t label) { return label >= 0 && static_cast<std::size_t>(label) < classes; });
}

} // namespace

dataset::dataset(feature_store features, std::vector<std::int32_t> labels, std::size_t classes)
    : features_(std::move(features)), labels_(std::move(labels)), classes_(classes) {
  measure();
  require(labels_.size() == (is_tokens() ? 0 : size_), "there is not one label for each sample");
  require(in_range(labels_, classes), "a label lies outside the classes");
  if (const auto* windows = std::get_if<token_windows>(&features_))
    require(in_range(windows->tokens, classes), "a token lies outside the classes");
}

dataset::dataset(feature_store features, std::vector<float> targets)
    : features_(std::move(features)), kind_(label_kind::numbers), targets_(std::move(targets)) {
  measure();
  require(!is_tokens(), "the labels of tokens are tokens");
  require(targets_.size() == size_, "there is not one target for each sample");
  require(std::ranges::all_of(targets_, [](float y) { return std::isfinite(y); }), "a target is not finite");
}

void dataset::measure() {
  size_ = std::visit([](const auto& f) { return rows(f); }, features_);
  sample_dims_ = std::visit([](const auto& f) { return dims_of(f); }, features_);
}

std::span<const std::size_t> dataset::category_counts() const noexcept {
  const auto* f = std::get_if<categorical_features>(&features_);
  return f == nullptr ? std::span<const std::size_t>() : f->counts;
}

std::size_t dataset::bytes() const noexcept {
  return std::visit([](const auto& f) { return bytes_of(f); }, features_) +
         labels_.capacity() * sizeof(std::int32_t) + targets_.capacity() * sizeof(float);
}

dataset dataset::slice(std::size_t first, std::size_t count) const {
  if (first > size_ || count > size_ - first)
    throw std::out_of_range("dataset: samples " + std::to_string(first) + " to " +
                            std::to_string(first + count) + " of " + std::to_string(size_));
  auto features = std::visit([&](const auto& f) -> feature_store { return cut(f, first, count); }, features_);
  if (has_targets()) return {std::move(features), cut(targets_, first, count)};
  return {std::move(features), is_tokens() ? std::vector<std::int32_t>{} : cut(labels_, first, count),
          classes_};
}

} // namespace mailgrad
