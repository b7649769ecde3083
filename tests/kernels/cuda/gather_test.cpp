#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>

#include <limits>
#include <random>
#include <string>

namespace mailgrad {
namespace {

using ::testing::Each;
using testing::normal_values;
using testing::shifted_array;

class GpuGather : public testing::gpu_test {};

TEST_F(GpuGather, CopiesTheRowsOfTheHost) {
  std::minstd_rand random(1);
  for (const std::size_t width : {1U, 3U, 4U, 64U, 1000U})
    for (const std::size_t asked : {0U, 1U, 7U, 1500U})
      for (const std::size_t shift : {0U, 1U}) {
        SCOPED_TRACE(std::to_string(asked) + " rows of " + std::to_string(width) + " from " +
                     std::to_string(shift));
        constexpr std::size_t height = 37;
        const std::vector<float> table = normal_values(height * width, 2);
        std::vector<std::int32_t> rows(asked);
        for (std::int32_t& r : rows) r = static_cast<std::int32_t>(random() % height);
        std::vector<float> expected(asked * width);
        gather(host_stream{}, table, width, rows, expected.data());
        const shifted_array<float> from(queue(), table, shift), to(queue(), expected.size(), shift);
        const auto numbers = array(rows);
        gather(gpu(), {from.data(), table.size()}, width, numbers.span(), to.data());
        EXPECT_EQ(to.read(), expected);
      }
}

TEST_F(GpuGather, TakesPacksOnlyWhereBothSidesAreAligned) {
  const std::vector<float> table = normal_values(40, 2);
  const auto rows = array(std::vector<std::int32_t>{4, 0});
  const std::vector<float> expected{table[32], table[33], table[34], table[35], table[36], table[37],
                                    table[38], table[39], table[0],  table[1],  table[2],  table[3],
                                    table[4],  table[5],  table[6],  table[7]};
  for (const std::size_t left : {0U, 1U}) {
    const shifted_array<float> from(queue(), table, left), to(queue(), 16, 1 - left);
    gather(gpu(), {from.data(), table.size()}, 8, rows.span(), to.data());
    EXPECT_EQ(to.read(), expected);
  }
}

TEST_F(GpuGather, NotesTheFirstRowThatTheTableLacks) {
  constexpr std::size_t width = 5, height = 3;
  const auto table = array(normal_values(width * height, 1));
  for (const std::int32_t bad : {3, -1, std::numeric_limits<std::int32_t>::min()}) {
    std::vector<std::int32_t> asked(2000, 99);
    asked[0] = asked[1] = 2;
    asked[2] = bad;
    const auto rows = array(asked);
    const auto result = unwritten<float>(asked.size() * width);
    cuda_stream s = on_gpu();
    s.operation = 6;
    gather(s, table.span(), width, rows.span(), result.data());
    const auto fault = queue().take_fault();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->kind(), cuda::fault_kind::row);
    EXPECT_EQ(fault->operation(), 6U);
    EXPECT_EQ(fault->found(), bad);
    EXPECT_EQ(fault->limit(), height);
    const std::vector<float> found = result.read();
    EXPECT_THAT(std::vector(found.begin() + 2 * width, found.end()), Each(0.0F));
  }
}

TEST_F(GpuGather, RefusesATableThatIsNotMadeOfWholeRows) {
  const auto table = array(normal_values(10, 1));
  const auto rows = array(std::vector<std::int32_t>{0});
  const auto result = unwritten<float>(3);
  EXPECT_THROW(gather(gpu(), table.span(), 3, rows.span(), result.data()), shape_error);
}

} // namespace
} // namespace mailgrad
