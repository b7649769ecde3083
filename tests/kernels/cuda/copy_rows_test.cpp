#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/tensor/error.hpp>

#include <deque>
#include <limits>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using testing::drawn_integers;
using testing::normal_values;
using testing::shifted_array;

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
  static std::vector<float> first_values(const part& p) { return std::vector<float>(p.floats(), 7.0F); }
  static std::vector<float> other_values(const part& p, std::size_t i) {
    return normal_values(p.floats(), i + 1);
  }

  /// What each part has when the numbers that it has were copied, one after the other.
  static std::vector<std::vector<float>> expected_of(const std::vector<part>& parts) {
    std::vector<std::vector<float>> all;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const part& p = parts[i];
      const std::vector<float> from = other_values(p, i);
      std::vector<float>& to = all.emplace_back(p.all ? from : first_values(p));
      for (std::size_t j = p.first; j < p.numbers.size() && !p.all; j += p.stride) {
        const std::int64_t row = std::int64_t{p.numbers[j]} - p.begin;
        for (std::size_t c = 0; c < p.width && row >= 0 && p.numbers[j] < p.end; ++c)
          to[static_cast<std::size_t>(row) * p.width + c] = from[static_cast<std::size_t>(row) * p.width + c];
      }
    }
    return all;
  }
  void expect_copied_on_host(const std::vector<part>& parts) {
    std::vector<std::vector<float>> from, to;
    std::vector<row_copy> copies;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      from.push_back(other_values(parts[i], i));
      to.push_back(first_values(parts[i]));
      copies.push_back(parts[i].on(from.back().data(), to.back().data(), parts[i].numbers.data()));
    }
    copy_rows(host_stream{}, copies);
    EXPECT_EQ(to, expected_of(parts));
  }
  void expect_copied(const stream& s, const std::vector<part>& parts) {
    std::deque<shifted_array<float>> from, to;
    std::deque<testing::gpu_array<std::int32_t>> numbers;
    std::vector<row_copy> copies;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      from.emplace_back(queue(), other_values(parts[i], i), parts[i].shift_from);
      to.emplace_back(queue(), first_values(parts[i]), parts[i].shift_to);
      numbers.emplace_back(queue(), parts[i].numbers);
      copies.push_back(parts[i].on(from.back().data(), to.back().data(), numbers.back().data()));
    }
    copy_rows(s, copies);
    const auto expected = expected_of(parts);
    for (std::size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(to[i].read(), expected[i]) << "copy " << i;
    EXPECT_FALSE(queue().take_fault());
  }
  void expect_copied(const std::vector<part>& parts) {
    expect_copied_on_host(parts);
    expect_copied(gpu(), parts);
  }
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
  const std::vector<float> from = normal_values(40 * 4, 1), before(from.size(), 7.0F);
  std::vector<std::int32_t> numbers(60);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int32_t>(i) - 10;
  std::vector<float> expected = before, on_host = before;
  std::copy_n(from.begin() + 10 * 4, 20 * 4, expected.begin() + 10 * 4);
  const auto part_of = [](const float* x, float* y, const std::int32_t* rows) {
    return std::vector{row_copy{x + 10 * 4, y + 10 * 4, 4, 10, 30, 60, rows}};
  };
  copy_rows(host_stream{}, part_of(from.data(), on_host.data(), numbers.data()));
  EXPECT_EQ(on_host, expected);
  const auto there = array(from), to = array(before);
  const auto rows = array(numbers);
  copy_rows(gpu(), part_of(there.data(), to.data(), rows.data()));
  EXPECT_EQ(to.read(), expected);
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

} // namespace
} // namespace mailgrad
