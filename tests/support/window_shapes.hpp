#pragma once

#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/pooling.hpp>

#include <cstddef>
#include <ostream>

namespace mailgrad::testing {

/// Images of batch x height x width x channels, and windows of rows x columns at a stride, with the same
/// padding on all sides.
struct pooled_windows {
  std::size_t batch, height, width, channels, rows, columns, stride_rows, stride_columns, pad = 0;

  window_grid grid() const {
    return {batch,
            height,
            width,
            channels,
            rows,
            columns,
            stride_rows,
            stride_columns,
            pad,
            pad,
            pad,
            pad,
            (height + 2 * pad - rows) / stride_rows + 1,
            (width + 2 * pad - columns) / stride_columns + 1};
  }
};

inline void PrintTo(const pooled_windows& p, std::ostream* out) {
  *out << p.batch << 'x' << p.height << 'x' << p.width << 'x' << p.channels << " by " << p.rows << 'x'
       << p.columns << " stride " << p.stride_rows << 'x' << p.stride_columns << " padding " << p.pad;
}

/// Images of batch x height x width x in, windows of rows x columns at a stride, with padding on each side,
/// and the channels of the result.
struct convolved_windows {
  std::size_t batch, height, width, in, rows, columns, out;
  std::size_t stride_rows = 1, stride_columns = 1;
  std::size_t top = 0, left = 0, bottom = 0, right = 0;

  convolution_shape shape() const {
    return {{batch, height, width, in, rows, columns, stride_rows, stride_columns, top, left, bottom, right,
             (height + top + bottom - rows) / stride_rows + 1,
             (width + left + right - columns) / stride_columns + 1},
            out};
  }
};

inline void PrintTo(const convolved_windows& g, std::ostream* out) {
  *out << g.batch << 'x' << g.height << 'x' << g.width << 'x' << g.in << " by " << g.rows << 'x' << g.columns
       << 'x' << g.out << " stride " << g.stride_rows << 'x' << g.stride_columns << " padding " << g.top
       << '+' << g.bottom << ' ' << g.left << '+' << g.right;
}

} // namespace mailgrad::testing
