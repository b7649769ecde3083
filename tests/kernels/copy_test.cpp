#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace mailgrad {
namespace {

using floats = std::vector<float>;

floats counting(std::size_t n) {
  floats v(n);
  std::iota(v.begin(), v.end(), 1.0F);
  return v;
}

/// Element by element, from the definition.
void plain_copy(const shape& extents, const element_places& from, const element_places& to, const floats& x,
                floats& y) {
  for (std::size_t n = 0; n < extents.size(); ++n) {
    std::size_t rest = n, source = from.offset, target = to.offset;
    for (std::size_t i = extents.rank(); i-- > 0; rest /= extents[i]) {
      source += rest % extents[i] * from.steps[i];
      target += rest % extents[i] * to.steps[i];
    }
    y[target] = x[source];
  }
}

/// Axis i of the result is axis order[i] of `dims`.
void expect_transposed(const shape& dims, const std::vector<std::size_t>& order) {
  SCOPED_TRACE(to_string(dims));
  shape out = dims;
  element_places permuted;
  for (std::size_t i = 0; i < order.size(); ++i) {
    out[i] = dims[order[i]];
    permuted.steps[i] = row_major(dims).steps[order[i]];
  }
  const floats x = counting(dims.size());
  floats y(dims.size()), expected(dims.size());
  strided_copy(out, permuted, row_major(out)).run(host_stream{}, x.data(), y.data());
  plain_copy(out, permuted, row_major(out), x, expected);
  EXPECT_EQ(y, expected);
}

TEST(StridedCopy, TransposesMatricesOfAnySize) {
  for (const std::size_t rows : {1U, 2U, 15U, 16U, 17U, 33U, 100U})
    for (const std::size_t columns : {1U, 3U, 16U, 31U, 64U}) expect_transposed({rows, columns}, {1, 0});
}

TEST(StridedCopy, ReordersAxesInEveryWay) {
  std::vector<std::size_t> order{0, 1, 2, 3};
  do {
    expect_transposed({3, 17, 2, 18}, order);
    expect_transposed({2, 1, 5, 1}, order);
  } while (std::ranges::next_permutation(order).found);
}

TEST(StridedCopy, CopiesAScalar) {
  const floats x{7};
  floats y(1);
  strided_copy({}, row_major({}), row_major({})).run(host_stream{}, x.data(), y.data());
  EXPECT_EQ(y, x);
}

TEST(StridedCopy, OfNothingWritesNothing) {
  const floats x{7};
  floats y{9};
  const shape none{3, 0, 2};
  strided_copy(none, row_major(none), row_major(none)).run(host_stream{}, x.data(), y.data());
  EXPECT_EQ(y, floats{9});
}

TEST(StridedCopy, TakesAsManyAxesAsAShapeHas) {
  expect_transposed({2, 3, 1, 2, 3, 2, 2, 3}, {7, 0, 6, 1, 5, 2, 4, 3});
}

TEST(StridedCopy, ReadsAndWritesFromAnOffset) {
  const shape whole{3, 4}, middle{3, 2};
  element_places inside = row_major(whole);
  inside.offset = 1;
  const floats x = counting(12);
  floats part(6);
  strided_copy(middle, inside, row_major(middle)).run(host_stream{}, x.data(), part.data());
  EXPECT_EQ(part, (floats{2, 3, 6, 7, 10, 11}));

  floats back(12, 5);
  strided_copy(middle, row_major(middle), inside).run(host_stream{}, part.data(), back.data());
  EXPECT_EQ(back, (floats{5, 2, 3, 5, 5, 6, 7, 5, 5, 10, 11, 5}));
}

TEST(StridedCopy, CanWriteIntoZeros) {
  const shape whole{2, 3}, last{2, 1};
  element_places inside = row_major(whole);
  inside.offset = 2;
  const floats x{8, 9};
  floats y(6, 5);
  strided_copy(last, row_major(last), inside).run_into_zeros(host_stream{}, x.data(), y.data(), y.size());
  EXPECT_EQ(y, (floats{0, 0, 8, 0, 0, 9}));
}

TEST(StridedCopy, HasNoCudaVersion) {
  MAILGRAD_SKIP_WITH_CUDA();
  floats x(4), y(4);
  const strided_copy box({4}, row_major({4}), row_major({4}));
  EXPECT_THROW(box.run(cuda_stream{}, x.data(), y.data()), device_error);
}

} // namespace
} // namespace mailgrad
