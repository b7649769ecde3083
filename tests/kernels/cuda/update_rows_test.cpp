#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/kernels/update.hpp>

#include <deque>
#include <map>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using testing::drawn_integers;
using testing::expect_close;
using testing::gpu_array;
using testing::normal_values;
using testing::shifted_array;

std::size_t states_for_rows(const update_rule& rule) {
  return std::visit([]<class Rule>(const Rule&) { return Rule::states; }, rule);
}

/// One update of rows `begin` to `end` of a table.
struct rows_case {
  update_rule rule = adagrad_update{0.1F, 1e-8F};
  weight_penalty penalty{};
  std::size_t width = 4;
  std::int32_t begin = 0, end = 37;
  std::vector<std::vector<std::int32_t>> lists{};
  std::size_t shift = 0;
};

/// The weights, then each state.
using row_tables = std::vector<std::vector<float>>;

float scale_of_list(std::size_t gradient) { return 1 / static_cast<float>(gradient + 1); }

class GpuUpdateRows : public testing::gpu_test {
protected:
  static std::size_t floats_of(const rows_case& c) {
    return static_cast<std::size_t>(c.end - c.begin) * c.width;
  }
  static row_tables first_values(const rows_case& c) {
    row_tables all{normal_values(floats_of(c), 1)};
    for (std::size_t i = 0; i < states_for_rows(c.rule); ++i) {
      all.push_back(normal_values(floats_of(c), 50 + i));
      for (float& v : all.back()) v = std::abs(v) + 0.1F; // in some rules a mean of squares
    }
    return all;
  }
  static std::vector<float> values_of(const rows_case& c, std::size_t gradient) {
    return normal_values(c.lists[gradient].size() * c.width, 100 + gradient);
  }

  /// The sums of the rows that are named, and one update of each of these.
  static row_tables on_host(const rows_case& c) {
    row_tables result = first_values(c);
    std::map<std::int32_t, std::vector<float>> sums;
    for (std::size_t i = 0; i < c.lists.size(); ++i) {
      const std::vector<float> values = values_of(c, i);
      for (std::size_t j = 0; j < c.lists[i].size() && c.lists[i][j] >= 0; ++j) {
        if (c.lists[i][j] < c.begin || c.lists[i][j] >= c.end) continue;
        auto& sum = sums.try_emplace(c.lists[i][j] - c.begin, c.width).first->second;
        for (std::size_t k = 0; k < c.width; ++k) sum[k] += scale_of_list(i) * values[j * c.width + k];
      }
    }
    std::vector<float*> state;
    for (std::size_t i = 1; i < result.size(); ++i) state.push_back(result[i].data());
    for (const auto& [row, sum] : sums) {
      const auto number = static_cast<std::uint32_t>(row);
      update_rows(host_stream{}, c.rule, c.penalty, {result[0], c.width, {&number, 1}, sum, 1}, state);
    }
    return result;
  }

  row_tables on_the_gpu(const rows_case& c) {
    std::deque<shifted_array<float>> tables, values;
    std::deque<gpu_array<std::int32_t>> numbers;
    std::vector<float*> state;
    std::vector<row_gradient> gradients;
    for (const auto& first : first_values(c)) tables.emplace_back(queue(), first, c.shift);
    for (std::size_t i = 1; i < tables.size(); ++i) state.push_back(tables[i].data());
    for (std::size_t i = 0; i < c.lists.size(); ++i) {
      values.emplace_back(queue(), values_of(c, i), c.shift);
      numbers.emplace_back(queue(), c.lists[i]);
      gradients.push_back({numbers.back().span(), values.back().data(), scale_of_list(i)});
    }
    const auto scratch = unwritten<float>(row_update_bytes(device_kind::cuda, gradients) / sizeof(float));
    update_summed_rows(gpu(), c.rule, c.penalty,
                       {{tables[0].data(), floats_of(c)}, c.width, c.begin, c.end, gradients, scratch.data()},
                       state);
    row_tables result;
    for (const auto& t : tables) result.push_back(t.read());
    return result;
  }

  void expect_as_on_host(const rows_case& c, float factor = 1) {
    const row_tables found = on_the_gpu(c), expected = on_host(c);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) expect_close(found[i], expected[i], factor);
    EXPECT_EQ(on_the_gpu(c), found) << "another order of a sum";
  }
};

const update_rule rules_for_rows[] = {sgd_update{0.1F},
                                      momentum_update{0.1F, 0.9F},
                                      nesterov_update{0.1F, 0.9F},
                                      adagrad_update{0.1F, 1e-8F},
                                      rmsprop_update{0.1F, 0.9F, 0.1F, 1e-8F},
                                      adam_update{0.1F, 0.9F, 0.1F, 0.999F, 0.001F, 2.0F, 1e-8F},
                                      delayed_nesterov_update{0.1F, 0.9F, 0.25F, 0.9F, 0.25F, 1.0F}};

TEST_F(GpuUpdateRows, AppliesEveryRuleAsTheHostDoes) {
  for (const update_rule& rule : rules_for_rows)
    for (const weight_penalty& penalty : {weight_penalty{}, weight_penalty{0.01F, 0.02F}}) {
      SCOPED_TRACE(std::to_string(rule.index()) + (penalty.none() ? "" : " with penalties"));
      expect_as_on_host({rule, penalty, 4, 0, 37, {drawn_integers(50, 36, 3)}});
      expect_as_on_host({rule, penalty, 3, 0, 37, {drawn_integers(50, 36, 3), drawn_integers(20, 36, 4)}});
    }
}

TEST_F(GpuUpdateRows, TakesAnyWidthAndLength) {
  for (const std::size_t width : {1U, 3U, 4U, 64U, 132U, 300U})
    for (const std::size_t n : {0U, 1U, 9U, 65U, 300U})
      for (const std::size_t shift : {0U, 1U}) {
        SCOPED_TRACE(std::to_string(n) + " rows of " + std::to_string(width) + " from " +
                     std::to_string(shift));
        expect_as_on_host({.width = width, .lists = {drawn_integers(n, 36, 3)}, .shift = shift});
      }
}

TEST_F(GpuUpdateRows, UpdatesARowOnceThatSeveralGradientsName) {
  std::vector<std::vector<std::int32_t>> lists;
  for (std::size_t i = 0; i < 70; ++i) lists.push_back(drawn_integers(1 + i % 9, 36, i));
  lists[3].clear();
  expect_as_on_host({.lists = lists}, 4);
  expect_as_on_host({.rule = momentum_update{0.1F, 0.9F}, .lists = {{5, 6}, {6, 7}, {7, 5, 5}}});
}

TEST_F(GpuUpdateRows, SharesLongRunsAmongWarps) {
  for (const std::size_t n : {165U, 2049U, 5000U}) {
    std::vector<std::int32_t> rows = drawn_integers(n, 3, 3); // none of row 4
    for (std::size_t i = 0; i < n; i += 2) rows[i] = 2;
    expect_as_on_host({.width = 12, .end = 5, .lists = {rows, {2, 4, 2}}}, std::sqrt(static_cast<float>(n)));
  }
}

/// Of the others a shard elsewhere takes care.
TEST_F(GpuUpdateRows, ChangesOnlyTheRowsOfItsPart) {
  expect_as_on_host({.begin = 10, .end = 21, .lists = {drawn_integers(200, 36, 3), {9, 10, 20, 21, 36}}}, 3);
}

TEST_F(GpuUpdateRows, ANumberBelow0EndsAList) {
  expect_as_on_host({.lists = {{1, 2, 1, -1, 2, 3}, {3, -7, 4}, {-1, 5}}});
  expect_as_on_host({.lists = {{-1, 5}, {5}}});
  EXPECT_FALSE(queue().take_fault());
}

/// A table whose gradient has all its rows is updated as one that gets a dense gradient.
TEST_F(GpuUpdateRows, IsADenseUpdateIfItHasAllRows) {
  constexpr std::size_t width = 8;
  constexpr std::int32_t height = 11;
  for (const update_rule& rule : rules_for_rows) {
    rows_case c{.rule = rule, .width = width, .end = height, .lists = {drawn_integers(700, height - 1, 3)}};
    for (std::int32_t r = 0; r < height; ++r) c.lists[0].push_back(r);
    const row_tables found = on_the_gpu(c);
    std::deque<shifted_array<float>> tables;
    for (const auto& first : first_values(c)) tables.emplace_back(queue(), first, 0);
    const gpu_array<std::int32_t> numbers(queue(), c.lists[0]);
    const gpu_array<float> values(queue(), values_of(c, 0));
    const auto scratch =
        unwritten<float>(scatter_scratch_bytes(device_kind::cuda, numbers.size()) / sizeof(float));
    const auto sums = unwritten<float>(height * width);
    scatter_rows(gpu(), numbers.span(), values.data(), width, sums.span(), scratch.data());
    std::vector<float*> state;
    for (std::size_t i = 1; i < tables.size(); ++i) state.push_back(tables[i].data());
    const std::span<float> weights(tables[0].data(), height * width);
    const scaled_gradient all{sums.data(), scale_of_list(0)};
    update(gpu(), rule, {}, {weights, weights, {&all, 1}}, state);
    for (std::size_t i = 0; i < tables.size(); ++i) expect_close(found[i], tables[i].read());
  }
}

} // namespace
} // namespace mailgrad
