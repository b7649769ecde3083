#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/kernels/update.hpp>
#include <mailgrad/tensor/error.hpp>

#include <deque>

namespace mailgrad {
namespace {

using testing::drawn_integers, testing::expect_close, testing::gpu_array, testing::normal_values,
    testing::positive_values, testing::twin;

using floats = std::vector<float>;
using integers = std::vector<std::int32_t>;

const update_rule every_rule[] = {sgd_update{0.1F},
                                  momentum_update{0.1F, 0.9F},
                                  nesterov_update{0.1F, 0.9F},
                                  adagrad_update{0.1F, 1e-8F},
                                  rmsprop_update{0.1F, 0.9F, 0.1F, 1e-8F},
                                  adam_update{0.1F, 0.9F, 0.1F, 0.999F, 0.001F, 1.5F, 1e-8F},
                                  delayed_nesterov_update{0.1F, 0.9F, 0.25F, 0.8F, 0.25F, 0.5F}};

std::size_t states_of_rule(const update_rule& rule) {
  return std::visit([]<class Rule>(const Rule&) { return Rule::states; }, rule);
}

class gpu_update_test : public testing::gpu_test {
protected:
  /// States of a rule. In some rules they are means of squares, so they are not negative.
  std::deque<twin<float>> states_for(const update_rule& rule, std::size_t n, std::size_t shift = 0) {
    std::deque<twin<float>> states;
    for (std::size_t i = 0; i < states_of_rule(rule); ++i)
      states.push_back(given(positive_values(n, 50 + i), shift));
    return states;
  }
  template <class At>
  static std::vector<float*> addresses(const At& at, std::deque<twin<float>>& arrays) {
    std::vector<float*> all;
    for (auto& x : arrays) all.push_back(at(x));
    return all;
  }
};

/// One update: how many weights and gradients, and where they lie.
struct update_case {
  update_rule rule = momentum_update{0.1F, 0.9F};
  weight_penalty penalty{};
  std::size_t n = 1003;
  std::size_t gradients = 2;
  std::size_t shift = 0;
  bool apart = false; ///< the new weights do not take the place of the old ones
  float share = 1;
};

float scale_of(std::size_t gradient) { return 1 / static_cast<float>(gradient + 2); }

class GpuUpdate : public gpu_update_test {
protected:
  /// The new weights, then each state.
  std::deque<twin<float>> updated(const update_case& c) {
    const auto first = given(normal_values(c.n, 1), c.shift);
    std::deque<twin<float>> gradients, found = states_for(c.rule, c.n, c.shift);
    for (std::size_t i = 0; i < c.gradients; ++i)
      gradients.push_back(given(normal_values(c.n, 100 + i), c.shift));
    auto weights = c.apart ? wanted(c.n, c.shift) : given(first.here, c.shift);
    on_both([&](const stream& s, auto at) {
      std::vector<scaled_gradient> all;
      for (const auto& g : gradients) all.push_back({at(g), scale_of(all.size())});
      const float* const old = c.apart ? at(first) : at(weights);
      update(s, c.rule, c.penalty, {{old, c.n}, {at(weights), c.n}, all, c.share}, addresses(at, found));
    });
    queue().finish(); // before the gradients go
    found.push_front(std::move(weights));
    return found;
  }

  void expect_as_on_host(const update_case& c) {
    for (const auto& x : updated(c)) expect_close(x);
  }
};

TEST_F(GpuUpdate, AppliesEachRuleAsTheHostDoes) {
  for (const update_rule& rule : every_rule) {
    SCOPED_TRACE(rule.index());
    expect_as_on_host({.rule = rule});
    expect_as_on_host({.rule = rule, .penalty = {0.1F, 0.01F}});
    expect_as_on_host({.rule = rule, .n = 1002, .gradients = 1, .shift = 1, .apart = true});
  }
}

TEST_F(GpuUpdate, TakesAnyNumberOfWeights) {
  for (const std::size_t n : {1U, 3U, 4U, 5U, 1023U, 1024U, 1025U, 50007U})
    for (const std::size_t shift : {0U, 1U}) {
      SCOPED_TRACE(std::to_string(n) + " weights from " + std::to_string(shift));
      expect_as_on_host({.n = n, .shift = shift});
    }
}

TEST_F(GpuUpdate, SumsAnyNumberOfGradients) {
  for (const std::size_t count : {0U, 1U, 3U, 4U, 5U, 31U, 32U, 33U, 97U}) {
    SCOPED_TRACE(std::to_string(count) + " gradients");
    expect_as_on_host({.n = 333, .gradients = count});
    expect_as_on_host({.rule = sgd_update{0.1F}, .n = 30, .gradients = count, .shift = 1});
  }
}

TEST_F(GpuUpdate, TakesAShareOfTheSum) {
  for (const update_rule& rule : every_rule)
    for (const std::size_t count : {1U, 3U, 33U})
      expect_as_on_host({.rule = rule, .gradients = count, .share = 1.0F / 3});
}

TEST_F(GpuUpdate, LeavesTheOldWeightsWhereTheNewLieApart) {
  const auto old = array(normal_values(100, 1)), updated = unwritten<float>(100),
             g = array(normal_values(100, 2));
  const scaled_gradient one{g.data()};
  update(gpu(), sgd_update{1}, {}, {old.span(), updated.span(), {&one, 1}}, {});
  EXPECT_EQ(old.read(), normal_values(100, 1));
  EXPECT_NE(updated.read(), old.read());
}

TEST_F(GpuUpdate, GivesTheSameBitsInEachRun) {
  const update_case c{.rule = every_rule[5], .n = 5001, .gradients = 40};
  const auto first = updated(c), second = updated(c);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].there.read(), second[i].there.read());
}

TEST_F(GpuUpdate, OfNothingDoesNothing) { update(gpu(), sgd_update{1}, {}, {{}, {}, {}}, {}); }

TEST_F(GpuUpdate, RefusesMoreGradientsThanTheLaneHasRoomFor) {
  const auto w = array(normal_values(1, 1)), g = array(normal_values(1, 2));
  const std::vector<scaled_gradient> many(cuda::gpu_queue::scratch_bytes / 12 + 1, {g.data(), 1});
  EXPECT_THROW(update(gpu(), sgd_update{1}, {}, {w.span(), w.span(), many}, {}), shape_error);
}

/// One update of rows `begin` to `end` of a table.
struct rows_case {
  update_rule rule = adagrad_update{0.1F, 1e-8F};
  weight_penalty penalty{};
  std::size_t width = 4;
  std::int32_t begin = 0, end = 37;
  std::vector<integers> lists{};
  std::size_t shift = 0;

  std::size_t floats_of_part() const { return static_cast<std::size_t>(end - begin) * width; }
  floats values_of(std::size_t gradient) const {
    return normal_values(lists[gradient].size() * width, 100 + gradient);
  }
};

float scale_of_list(std::size_t gradient) { return 1 / static_cast<float>(gradient + 1); }

class GpuUpdateRows : public gpu_update_test {
protected:
  /// The sums of the rows that are named, and one update of each of these.
  static void update_on_host(const rows_case& c, floats& weights, const std::vector<float*>& state) {
    std::map<std::int32_t, floats> sums;
    for (std::size_t i = 0; i < c.lists.size(); ++i) {
      const floats values = c.values_of(i);
      for (std::size_t j = 0; j < c.lists[i].size() && c.lists[i][j] >= 0; ++j) {
        if (c.lists[i][j] < c.begin || c.lists[i][j] >= c.end) continue;
        auto& sum = sums.try_emplace(c.lists[i][j] - c.begin, c.width).first->second;
        for (std::size_t k = 0; k < c.width; ++k) sum[k] += scale_of_list(i) * values[j * c.width + k];
      }
    }
    for (const auto& [row, sum] : sums) {
      const auto number = static_cast<std::uint32_t>(row);
      update_rows(host_stream{}, c.rule, c.penalty, {weights, c.width, {&number, 1}, sum, 1}, state);
    }
  }
  void update_on_gpu(const rows_case& c, float* weights, const std::vector<float*>& state) {
    std::deque<testing::shifted_array<float>> values;
    std::deque<gpu_array<std::int32_t>> numbers;
    std::vector<row_gradient> gradients;
    for (std::size_t i = 0; i < c.lists.size(); ++i) {
      values.emplace_back(queue(), c.values_of(i), c.shift);
      numbers.emplace_back(queue(), c.lists[i]);
      gradients.push_back({numbers.back().span(), values.back().data(), scale_of_list(i)});
    }
    const auto scratch = unwritten<float>(row_update_bytes(device_kind::cuda, gradients) / sizeof(float));
    update_summed_rows(gpu(), c.rule, c.penalty,
                       {{weights, c.floats_of_part()}, c.width, c.begin, c.end, gradients, scratch.data()},
                       state);
    queue().finish(); // before the gradients go
  }
  /// The weights, then each state.
  std::deque<twin<float>> updated(const rows_case& c) {
    auto found = states_for(c.rule, c.floats_of_part(), c.shift);
    auto weights = given(normal_values(c.floats_of_part(), 1), c.shift);
    update_on_host(c, weights.here, addresses([](auto& x) { return x.here.data(); }, found));
    update_on_gpu(c, weights.there.data(), addresses([](auto& x) { return x.there.data(); }, found));
    found.push_front(std::move(weights));
    return found;
  }
  void expect_as_on_host(const rows_case& c, float factor = 1) {
    const auto first = updated(c), again = updated(c);
    for (std::size_t i = 0; i < first.size(); ++i) {
      expect_close(first[i], factor);
      EXPECT_EQ(again[i].there.read(), first[i].there.read()) << "another order of a sum";
    }
  }
};

TEST_F(GpuUpdateRows, AppliesEveryRuleAsTheHostDoes) {
  for (const update_rule& rule : every_rule)
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
  std::vector<integers> lists;
  for (std::size_t i = 0; i < 70; ++i) lists.push_back(drawn_integers(1 + i % 9, 36, i));
  lists[3].clear();
  expect_as_on_host({.lists = lists}, 4);
  expect_as_on_host({.rule = momentum_update{0.1F, 0.9F}, .lists = {{5, 6}, {6, 7}, {7, 5, 5}}});
}

TEST_F(GpuUpdateRows, SharesLongRunsAmongWarps) {
  for (const std::size_t n : {165U, 2049U, 5000U}) {
    integers rows = drawn_integers(n, 3, 3); // none of row 4
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
  for (const update_rule& rule : every_rule) {
    rows_case c{.rule = rule, .width = width, .end = height, .lists = {drawn_integers(700, height - 1, 3)}};
    for (std::int32_t r = 0; r < height; ++r) c.lists[0].push_back(r);
    const auto found = updated(c);
    auto states = states_for(rule, height * width);
    const auto weights = array(normal_values(height * width, 1)), values = array(c.values_of(0)),
               sums = unwritten<float>(height * width);
    const auto numbers = array(c.lists[0]);
    const auto scratch =
        unwritten<float>(scatter_scratch_bytes(device_kind::cuda, numbers.size()) / sizeof(float));
    scatter_rows(gpu(), numbers.span(), values.data(), width, sums.span(), scratch.data());
    const scaled_gradient all{sums.data(), scale_of_list(0)};
    update(gpu(), rule, {}, {weights.span(), weights.span(), {&all, 1}},
           addresses([](auto& x) { return x.there.data(); }, states));
    expect_close(found[0].there.read(), weights.read());
    for (std::size_t i = 0; i < states.size(); ++i)
      expect_close(found[i + 1].there.read(), states[i].there.read());
  }
}

} // namespace
} // namespace mailgrad
