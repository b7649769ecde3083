#pragma once

#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/functors/host_device.hpp>
#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <bit>

namespace mailgrad::cuda {

/// Divides numbers of a kernel by an extent. `Index` is std::uint32_t for dividends below 2^31, where a
/// division is a product and a shift; otherwise it is std::size_t.
template <class Index>
class divider {
public:
  divider() = default;
  explicit divider(std::size_t by) : by_(by) {}
  MAILGRAD_HOST_DEVICE Index operator()(Index x) const { return x / by_; }
  MAILGRAD_HOST_DEVICE Index by() const { return by_; }

private:
  Index by_;
};

/// Source  Granlund & Montgomery, "Division by invariant integers using multiplication", PLDI 1994, figure
///         4.1.
template <>
class divider<std::uint32_t> {
public:
  divider() = default;
  explicit divider(std::size_t by)
      : by_(static_cast<std::uint32_t>(by)), shift_(static_cast<std::uint32_t>(std::bit_width(by - 1))),
        factor_(static_cast<std::uint32_t>(
            ((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift_) - by)) / by + 1)) {}
  MAILGRAD_HOST_DEVICE std::uint32_t operator()(std::uint32_t x) const {
    const auto high = static_cast<std::uint32_t>((std::uint64_t{x} * factor_) >> 32);
    return (high + x) >> shift_;
  }
  MAILGRAD_HOST_DEVICE std::uint32_t by() const { return by_; }
  /// Returns the quotient, and leaves the remainder in `x`.
  MAILGRAD_HOST_DEVICE std::uint32_t divide(std::uint32_t& x) const {
    const std::uint32_t quotient = (*this)(x);
    x -= quotient * by_;
    return quotient;
  }

private:
  std::uint32_t by_, shift_, factor_;
};

/// Whether kernels on `s` number so many elements for divider<std::uint32_t>.
inline bool fits_32_bits(const cuda_stream& s, std::size_t n) { return n <= s.most_in_32_bits; }

/// Calls visit(first row, number of rows) for as many rows at a time as have at most s.most_in_32_bits
/// elements, so that a kernel can count them in 32 bits.
///
/// Errors  shape_error if one row has more.
template <class Visit>
void for_row_chunks(const cuda_stream& s, const char* name, std::size_t rows, std::size_t columns,
                    Visit visit) {
  const std::size_t most = s.most_in_32_bits;
  if (columns > most) throw shape_error(std::string(name) + ": a GPU takes rows of fewer than 2^31 elements");
  const std::size_t at_once = most / std::max<std::size_t>(columns, 1);
  for (std::size_t first = 0; first < rows; first += at_once) visit(first, std::min(at_once, rows - first));
}

/// What a GPU's kernels must know of the windows of a convolution, in 32 bits.
struct window_numbers {
  std::uint32_t height, width, channels, out_channels;
  std::uint32_t out_height, out_width;
  std::uint32_t windows;                     ///< of the whole batch
  std::uint32_t pixels;                      ///< likewise
  std::uint32_t values;                      ///< of one window
  std::uint32_t image_values, result_values; ///< of one image, and of what becomes of it
  std::int32_t pad_top, pad_left;
  divider<std::uint32_t> per_image, per_row;            ///< windows
  divider<std::uint32_t> columns, by_channels, by_outs; ///< of a window; channels
  divider<std::uint32_t> by_pixels, by_width;           ///< of an image
  divider<std::uint32_t> stride_rows, stride_columns;
};

/// Errors  shape_error for 2^31 windows or pixels, or more, or images of as many values.
window_numbers numbers_of(const convolution_shape& c);

} // namespace mailgrad::cuda
