#pragma once

#include <mailgrad/tensor/shape.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

namespace mailgrad {

/// The most memory that the samples of one file may take. The size of a file says little about it: a parsed
/// line of text takes up to twelve times its bytes, and a packed file unpacks to a thousand times its size.
struct parsed_limit {
  std::uint64_t bytes = std::uint64_t{4} << 30;

  /// Errors  file_error if `found` bytes are more than that; its message says what to do.
  void require(const std::filesystem::path& file, std::uint64_t found) const;
};

/// The names under which a batch feeds a program:
///
///     dense and token sets   features, labels
///     sparse sets            columns, values, offsets, labels
///     sets of categories     categories, labels, and features where samples also have numbers
///     sets of named arrays   each array by its own name, labels
namespace batch_input {
inline constexpr std::string_view features = "features";
inline constexpr std::string_view columns = "columns";
inline constexpr std::string_view values = "values";
inline constexpr std::string_view offsets = "offsets";
inline constexpr std::string_view categories = "categories";
inline constexpr std::string_view labels = "labels";
} // namespace batch_input

/// Throws std::invalid_argument, "dataset: " and `what`, unless it holds.
inline void require_dataset(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument(fmt::format("dataset: {}", what));
}

/// Numbers of samples that a program holds in memory. The first extent counts the samples.
///
/// A vector is moved in and a span is copied, so the caller may free its memory. borrow() copies nothing.
/// Copies and slices of an array share its memory, which is never written to.
///
/// Shapes  dims: {samples, extents of one sample...}; values: dims.size() of them, row-major without gaps.
/// Errors  std::invalid_argument for another number of values, values at a null pointer, or a shape without
///         extents; no value has been read then.
/// Threads a value like any other: const access from many threads, otherwise one at a time.
class sample_array {
public:
  /// An array without samples.
  sample_array() = default;
  sample_array(const shape& dims, std::vector<float> values);
  sample_array(const shape& dims, std::vector<std::int32_t> values);
  sample_array(const shape& dims, std::span<const float> values);
  sample_array(const shape& dims, std::span<const std::int32_t> values);

  /// Refers to the caller's memory without a copy. Arrays and data sets that use the memory hold `owner`.
  /// Without an owner, the caller must keep the memory alive. The values must not change meanwhile.
  static sample_array borrow(const shape& dims, std::span<const float> values,
                             std::shared_ptr<const void> owner = {});
  static sample_array borrow(const shape& dims, std::span<const std::int32_t> values,
                             std::shared_ptr<const void> owner = {});

  const shape& dims() const noexcept { return dims_; }
  dtype type() const noexcept { return type_; }
  std::size_t samples() const noexcept { return dims_[0]; }
  /// The extents of one sample; a scalar if each sample is one number.
  shape sample_dims() const;

  /// The numbers, which must be of `type()`.
  template <class T = float>
  std::span<const T> values() const noexcept {
    static_assert(sizeof(T) == 4, "elements take four bytes");
    return {static_cast<const T*>(first_), dims_.size()};
  }
  std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(first_), dims_.size() * byte_size(type_)};
  }

  /// Returns `count` samples from `first` on, which must exist.
  sample_array slice(std::size_t first, std::size_t count) const;

private:
  sample_array(const shape& dims, dtype type, const void* first, std::size_t count,
               std::shared_ptr<const void> owner);

  shape dims_{0};
  dtype type_ = dtype::float32;
  const void* first_ = nullptr;
  std::shared_ptr<const void> owner_;
};

/// The place of the first value that is infinite or NaN; none if all are finite.
std::optional<std::size_t> first_not_finite(std::span<const float> values) noexcept;

/// Checks that all values are finite. `what` is the word for a value, such as "number". Each sample has
/// `width` values; with 0, the message names no sample.
/// Errors  std::invalid_argument that names the first value which is infinite or NaN: "dataset: number 2 of
///         sample 7 is nan; numbers must be finite".
void require_finite(std::span<const float> values, std::size_t width, const std::string& what);

} // namespace mailgrad
