#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>

#include <stdexcept>
#include <vector>

namespace mailgrad {
namespace {

using floats = std::vector<float>;
using indices = std::vector<std::int32_t>;

TEST(Gather, CopiesTheRowsInTheOrderAsked) {
  const floats table{1, 2, 3, 4, 5, 6};
  floats result(8);
  gather(host_stream{}, table, 2, indices{2, 0, 0, 1}, result.data());
  EXPECT_EQ(result, (floats{5, 6, 1, 2, 1, 2, 3, 4}));
}

TEST(Gather, RefusesARowThatIsNotThere) {
  const floats table(6);
  floats result(2);
  EXPECT_THROW(gather(host_stream{}, table, 2, indices{3}, result.data()), std::out_of_range);
  EXPECT_THROW(gather(host_stream{}, table, 2, indices{-1}, result.data()), std::out_of_range);
}

TEST(Gather, NamesTheRowAndTheTable) {
  const floats table(6);
  floats result(2);
  try {
    gather(host_stream{}, table, 2, indices{7}, result.data());
    FAIL();
  } catch (const std::out_of_range& e) {
    EXPECT_STREQ(e.what(), "row 7 of a table of 3 rows");
  }
}

TEST(Gather, HasNoCudaVersion) {
  const floats table(2);
  floats result(2);
  EXPECT_THROW(gather(cuda_stream{}, table, 2, indices{0}, result.data()), device_error);
}

TEST(ScatterRows, AddsRowsThatComeTwice) {
  floats table(6, 9);
  const floats values{1, 2, 3, 4, 5, 6};
  scatter_rows(host_stream{}, indices{2, 0, 2}, values.data(), 2, table);
  EXPECT_EQ(table, (floats{3, 4, 0, 0, 6, 8}));
}

TEST(ScatterRows, StopsAtANegativeRow) {
  floats table(4, 9);
  const floats values{1, 2, 3, 4, 5, 6};
  scatter_rows(host_stream{}, indices{1, -1, 0}, values.data(), 2, table);
  EXPECT_EQ(table, (floats{0, 0, 1, 2}));
}

TEST(ScatterRows, WithoutRowsGivesZeros) {
  floats table(4, 9);
  scatter_rows(host_stream{}, {}, nullptr, 2, table);
  EXPECT_EQ(table, floats(4));
}

TEST(ScatterRows, RefusesARowThatIsNotThere) {
  floats table(4);
  const floats values(2);
  EXPECT_THROW(scatter_rows(host_stream{}, indices{2}, values.data(), 2, table), std::out_of_range);
}

} // namespace
} // namespace mailgrad
