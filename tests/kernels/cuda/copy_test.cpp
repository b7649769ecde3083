#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <deque>
#include <numeric>

namespace mailgrad {
namespace {

using testing::drawn_integers, testing::expect_same, testing::normal_values, testing::twin;

/// Rows `begin` to `end` of a table, and the numbers of those that are copied, from number `first` on each
/// `stride`-th; without numbers, all rows.
struct part {
  std::size_t width;
  std::int32_t begin, end;
  std::vector<std::int32_t> numbers{};
  std::size_t first = 0, stride = 1;
  bool all = false;
  std::size_t shift_from = 0, shift_to = 0;

  std::size_t floats() const { return static_cast<std::size_t>(end - begin) * width; }
  std::size_t count() const {
    if (all) return row_copy::all;
    return numbers.size() <= first ? 0 : (numbers.size() - first + stride - 1) / stride;
  }
  row_copy on(const float* from, float* to, const std::int32_t* rows) const {
    return {from, to, width, begin, end, count(), rows + (count() > 0 ? first : 0), stride};
  }
};

class GpuCopyRows : public testing::gpu_test {
protected:
  /// What each part has when the numbers that it has were copied, one after the other.
  static std::vector<std::vector<float>> expected_of(const std::vector<part>& parts) {
    std::vector<std::vector<float>> all;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const part& p = parts[i];
      const std::vector<float> from = normal_values(p.floats(), i + 1);
      std::vector<float>& to = all.emplace_back(p.all ? from : std::vector<float>(p.floats(), 7.0F));
      for (std::size_t j = p.first; j < p.numbers.size() && !p.all; j += p.stride) {
        const std::int64_t row = std::int64_t{p.numbers[j]} - p.begin;
        for (std::size_t c = 0; c < p.width && row >= 0 && p.numbers[j] < p.end; ++c)
          to[static_cast<std::size_t>(row) * p.width + c] = from[static_cast<std::size_t>(row) * p.width + c];
      }
    }
    return all;
  }
  void expect_copied(const stream& there, const std::vector<part>& parts) {
    std::deque<twin<float>> from, to;
    std::deque<twin<std::int32_t>> numbers;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::size_t n = parts[i].floats();
      from.push_back(given(normal_values(n, i + 1), parts[i].shift_from));
      to.push_back(given(std::vector<float>(n, 7.0F), parts[i].shift_to));
      numbers.push_back(given(parts[i].numbers));
    }
    on_host_and(there, [&](const stream& s, auto at) {
      std::vector<row_copy> copies;
      for (std::size_t i = 0; i < parts.size(); ++i)
        copies.push_back(parts[i].on(at(from[i]), at(to[i]), at(numbers[i])));
      copy_rows(s, copies);
    });
    const auto expected = expected_of(parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(to[i].here, expected[i]) << "copy " << i;
      expect_same(to[i]);
    }
    EXPECT_FALSE(queue().take_fault());
  }
  void expect_copied(const std::vector<part>& parts) { expect_copied(gpu(), parts); }
};

TEST_F(GpuCopyRows, CopyTheRowsThatAreNamedAndNoOthers) {
  for (const std::size_t width : {1U, 3U, 4U, 64U, 300U})
    for (const std::size_t named : {0U, 1U, 7U, 900U}) {
      SCOPED_TRACE(std::to_string(named) + " rows of " + std::to_string(width));
      expect_copied({{width, 0, 37, drawn_integers(named, 36, named)}});
      expect_copied({{width, 0, 1000, drawn_integers(named, 999, named)}});
    }
}

TEST_F(GpuCopyRows, PassOverNumbersThatThePartLacks) {
  constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min(),
                         most = std::numeric_limits<std::int32_t>::max();
  const std::vector<std::int32_t> numbers{9, 10, -1, 19, 20, least, most, 0, 15, least + 10, least + 15};
  expect_copied({{4, 10, 20, numbers}});
  expect_copied({{5, 0, 10, numbers}});
  expect_copied({{2, 19, 20, numbers}});
}

TEST_F(GpuCopyRows, ReachThePartsOfATable) {
  const std::vector<std::int32_t> numbers = drawn_integers(50, 39, 3);
  expect_copied({{4, 0, 13, numbers}, {4, 13, 14, numbers}, {4, 14, 40, numbers}});
}

/// Beside the part lie the other rows of its table.
TEST_F(GpuCopyRows, WriteToNoRowBesideThePart) {
  const auto from = given(normal_values(40 * 4, 1));
  auto to = given(std::vector<float>(from.here.size(), 7.0F));
  std::vector<std::int32_t> named(60);
  std::iota(named.begin(), named.end(), -10);
  const auto numbers = given(named);
  std::vector<float> expected = to.here;
  std::copy_n(from.here.begin() + 10 * 4, 20 * 4, expected.begin() + 10 * 4);
  on_both([&](const stream& s, auto at) {
    copy_rows(s, std::vector{row_copy{at(from) + 10 * 4, at(to) + 10 * 4, 4, 10, 30, 60, at(numbers)}});
  });
  EXPECT_EQ(to.here, expected);
  expect_same(to);
}

TEST_F(GpuCopyRows, ReadEachSoManiethNumber) {
  const std::vector<std::int32_t> numbers = drawn_integers(26 * 5, 8, 3);
  std::vector<part> tables;
  for (std::size_t j = 0; j < 26; ++j) tables.push_back({4, 0, 9, numbers, j, 26});
  expect_copied(tables);
}

TEST_F(GpuCopyRows, CopyAllRowsWithoutNumbers) {
  part whole{4, 100, 350};
  whole.all = true;
  expect_copied({whole});
  whole.width = 3;
  expect_copied({whole, {4, 0, 9, {1, 8}}});
}

TEST_F(GpuCopyRows, MoveSingleFloatsWhereAnAddressIsNoPack) {
  for (const auto& shifts : testing::one_shifted_of(4)) {
    part a{8, 0, 9, {0, 8, 3}}, b{8, 0, 5, {4}};
    a.shift_from = shifts[0];
    a.shift_to = shifts[1];
    b.shift_from = shifts[2];
    b.shift_to = shifts[3];
    expect_copied({a, b});
  }
}

TEST_F(GpuCopyRows, MakeMoreCopiesThanALaunchTakes) {
  for (const std::size_t copies : {63U, 64U, 65U, 130U}) {
    std::vector<part> all;
    for (std::size_t i = 0; i < copies; ++i)
      all.push_back({4, 0, 5, {static_cast<std::int32_t>(i % 5)}}); // the last ones too
    expect_copied(all);
  }
}

TEST_F(GpuCopyRows, CountInPartsWhatIsTooLongFor32Bits) {
  part whole{4, 3, 40};
  whole.all = true;
  const std::vector<std::int32_t> numbers = drawn_integers(90, 39, 3);
  expect_copied(gpu_with_few_in_32_bits(12), {whole, {4, 0, 40, numbers, 1, 2}, {4, 30, 40, numbers}});
  EXPECT_THROW(expect_copied(gpu_with_few_in_32_bits(3), {{4, 0, 9, {1}}}), shape_error);
}

/// Threads of several blocks store the same values to one place, which is no race.
TEST_F(GpuCopyRows, MayBeToldOfARowManyTimes) {
  const std::vector<std::int32_t> numbers(3000, 2);
  expect_copied({{4, 0, 9, numbers}, {3, 0, 9, numbers}});
  const auto from = array(normal_values(36, 1)), to = array(std::vector<float>(36));
  const auto rows = array(numbers);
  const row_copy one{from.data(), to.data(), 4, 0, 9, numbers.size(), rows.data()};
  copy_rows(gpu(), std::vector{one, one, one});
  EXPECT_EQ(to.read()[8], from.read()[8]);
  EXPECT_EQ(to.read()[12], 0);
}

TEST_F(GpuCopyRows, ReadPinnedMemory) {
  cuda::pinned_block pinned(36 * sizeof(float));
  const std::vector<float> values = normal_values(36, 1);
  std::ranges::copy(values, pinned.as<float>().begin());
  const auto to = array(std::vector<float>(36));
  const auto rows = array(std::vector<std::int32_t>{8, 0});
  copy_rows(gpu(), std::vector{row_copy{pinned.as<float>().data(), to.data(), 4, 0, 9, 2, rows.data()}});
  const std::vector<float> found = to.read();
  EXPECT_EQ(found[0], values[0]);
  EXPECT_EQ(found[35], values[35]);
  EXPECT_EQ(found[4], 0);
}

TEST_F(GpuCopyRows, DoNothingWithoutCopies) {
  copy_rows(gpu(), {});
  expect_copied(std::vector<part>{{4, 0, 0, {0}}, {4, 3, 3, {}}});
}

class GpuStridedCopy : public testing::gpu_test {
protected:
  /// Copies between memories of these sizes; what the box leaves out keeps its value. Once more with
  /// elements that do not fit into 32 bits.
  void expect_as_on_host(const strided_copy& box, std::size_t from_size, std::size_t to_size,
                         std::size_t shift) {
    const auto x = given(normal_values(from_size, 1), shift);
    auto y = given(normal_values(to_size, 2)), z = given(y.here);
    on_both([&](const stream& s, auto at) { box.run(s, at(x), at(y)); });
    expect_same(y);
    box.run(gpu_with_few_in_32_bits(0), x.there.data(), z.there.data());
    EXPECT_EQ(z.there.read(), y.here) << "numbered in 64 bits";
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
  const auto x = given(normal_values(part.size(), 1));
  auto y = wanted(whole.size());
  on_both([&](const stream& s, auto at) { box.run_into_zeros(s, at(x), at(y), whole.size()); });
  expect_same(y);
}

} // namespace
} // namespace mailgrad
