#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/copy.hpp>

#include <algorithm>
#include <vector>

namespace mailgrad {
namespace {

using testing::normal_values;
using testing::shifted_array;

class GpuStridedCopy : public testing::gpu_test {
protected:
  /// Copies between memories of these sizes; what the box leaves out keeps its value. Once more with
  /// elements that do not fit into 32 bits.
  void expect_as_on_host(const strided_copy& box, std::size_t from_size, std::size_t to_size,
                         std::size_t shift) {
    const std::vector<float> x = normal_values(from_size, 1);
    std::vector<float> y = normal_values(to_size, 2);
    const shifted_array<float> on_x(queue(), x, shift), on_y(queue(), y, 0U), on_z(queue(), y, 0U);
    box.run(host_stream{}, x.data(), y.data());
    box.run(gpu(), on_x.data(), on_y.data());
    EXPECT_EQ(on_y.read(), y);
    box.run(gpu_with_few_in_32_bits(0), on_x.data(), on_z.data());
    EXPECT_EQ(on_z.read(), y) << "numbered in 64 bits";
  }

  void expect_transposed(const shape& dims, const std::vector<std::size_t>& order) {
    SCOPED_TRACE(to_string(dims));
    const element_places x = row_major(dims);
    shape out = dims;
    element_places from;
    for (std::size_t i = 0; i < order.size(); ++i) {
      out[i] = dims[order[i]];
      from.steps[i] = x.steps[order[i]];
    }
    const strided_copy box(out, from, row_major(out));
    for (const std::size_t shift : {0U, 1U}) expect_as_on_host(box, dims.size(), dims.size(), shift);
  }
};

TEST_F(GpuStridedCopy, TransposesMatricesOfAnySize) {
  for (const std::size_t rows : {1U, 4U, 15U, 16U, 64U, 65U, 132U})
    for (const std::size_t columns : {1U, 3U, 16U, 31U, 64U, 100U, 260U})
      expect_transposed({rows, columns}, {1, 0});
}

TEST_F(GpuStridedCopy, ReordersAxesInEveryWay) {
  std::vector<std::size_t> order{0, 1, 2, 3};
  do {
    expect_transposed({3, 17, 2, 20}, order);
    expect_transposed({2, 1, 5, 1}, order);
  } while (std::ranges::next_permutation(order).found);
  expect_transposed({2, 3, 1, 2, 3, 2, 2, 3}, {7, 0, 6, 1, 5, 2, 4, 3});
  expect_transposed({5, 32, 3, 68}, {0, 3, 2, 1}); // many matrices of whole packs
  expect_transposed({2, 3, 40, 70}, {1, 0, 3, 2});
}

TEST_F(GpuStridedCopy, CopiesPartsOfRows) {
  for (const std::size_t offset : {0U, 1U, 4U})
    for (const std::size_t width : {1U, 5U, 8U, 12U}) {
      const shape whole{30, 7, 20}, part{30, 7, width};
      element_places inside = row_major(whole);
      inside.offset = offset;
      for (const std::size_t shift : {0U, 1U}) {
        expect_as_on_host(strided_copy(part, inside, row_major(part)), whole.size(), part.size(), shift);
        expect_as_on_host(strided_copy(part, row_major(part), inside), part.size(), whole.size(), shift);
      }
    }
}

TEST_F(GpuStridedCopy, CopiesAllAtOnceAndNothing) {
  const shape all{11, 13}, none{3, 0, 2};
  expect_as_on_host(strided_copy(all, row_major(all), row_major(all)), all.size(), all.size(), 1);
  expect_as_on_host(strided_copy({}, row_major({}), row_major({})), 1, 1, 0);
  expect_as_on_host(strided_copy(none, row_major(none), row_major(none)), 4, 4, 0);
}

TEST_F(GpuStridedCopy, WritesEverySecondElement) {
  const shape dims{300, 40};
  element_places apart = row_major({300, 80});
  apart.steps[1] = 2;
  expect_as_on_host(strided_copy(dims, row_major(dims), apart), dims.size(), 2 * dims.size(), 0);
  expect_as_on_host(strided_copy(dims, apart, row_major(dims)), 2 * dims.size(), dims.size(), 0);
}

TEST_F(GpuStridedCopy, WritesIntoZeros) {
  const shape whole{30, 12}, part{30, 4};
  element_places inside = row_major(whole);
  inside.offset = 8;
  const strided_copy box(part, row_major(part), inside);
  const std::vector<float> x = normal_values(part.size(), 1);
  std::vector<float> y(whole.size());
  const auto on_x = array(x), on_y = unwritten<float>(whole.size());
  box.run_into_zeros(host_stream{}, x.data(), y.data(), y.size());
  box.run_into_zeros(gpu(), on_x.data(), on_y.data(), on_y.size());
  EXPECT_EQ(on_y.read(), y);
}

} // namespace
} // namespace mailgrad
