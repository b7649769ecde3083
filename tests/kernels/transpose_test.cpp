#include <mailgrad/kernels/host/gemm_tile.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace mailgrad {
namespace {

TEST(Transpose, MovesEveryElementOfAnyShapeAndTouchesNoOther) {
  constexpr std::size_t most = 2 * simd::width + 3, guard = simd::width;
  for (std::size_t rows = 0; rows <= most; ++rows)
    for (std::size_t columns = 0; columns <= most; ++columns)
      for (const std::size_t apart : {0U, 3U}) { // beyond a row, in memory
        const std::size_t from_stride = columns + apart, to_stride = rows + apart;
        std::vector<float> from(rows * from_stride);
        for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
        std::vector<float> to(columns * to_stride + 2 * guard, -1.0F), expected = to;
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t c = 0; c < columns; ++c)
            expected[guard + c * to_stride + r] = from[r * from_stride + c];
        transpose(from.data(), from_stride, to.data() + guard, to_stride, rows, columns);
        ASSERT_EQ(to, expected) << rows << " x " << columns << ", " << apart << " apart";
      }
}

} // namespace
} // namespace mailgrad
