#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/optim/custom_rule.hpp>
#include <mailgrad/optim/optimizer.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace mailgrad {
namespace {

using testing::expect_refused;

using floats = std::vector<float>;
using integers = std::vector<std::int32_t>;

constexpr std::size_t all = ~std::size_t{0};
constexpr stream host = host_stream{};

TEST(Refusals, OfUpdatesOutsideTheShard) {
  for (const char* name : {"sgd", "adam"}) {
    const auto rule = make_optimizer(parse_optimizer(name), 6);
    floats weights(6);
    floats fewer(5);
    const auto update = [&](dense_update work) { return [&, work] { rule->update(host, work); }; };
    expect_refused({
        {"other lengths", update({.weights = weights, .updated = fewer}), "update: 6 against 5"},
        {"behind the shard", update({.weights = weights, .updated = weights, .first = 1}),
         "weights 1 to 7 of a shard of 6"},
        {"from where counting wraps", update({.weights = weights, .updated = weights, .first = all - 2}),
         "of a shard of 6"},
        {"step 0", update({.weights = weights, .updated = weights, .step = 0}), "steps count from 1"},
    });
  }
}

TEST(Refusals, OfRowsOutsideTheTable) {
  for (const char* name : {"sgd", "adam"}) {
    const auto rule = make_optimizer(parse_optimizer(name), 6);
    floats weights(6);
    const floats values(6);
    const integers rows{0, 1};
    const sparse_update good{.weights = weights, .width = 3, .rows = rows, .values = values, .row_end = 2};
    const auto update = [&](auto change) {
      return [&, change] {
        sparse_update work = good;
        change(work);
        rule->update_rows(host, work);
      };
    };
    constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
    expect_refused({
        {"too few values", update([&](auto& w) { w.values = w.values.first(5); }),
         "5 values for 2 rows of 3"},
        {"a width that wraps", update([&](auto& w) { w.width = (all >> 1) + 1; }), "values for 2 rows"},
        {"fewer weights than rows", update([&](auto& w) { w.weights = w.weights.first(5); }), "5 weights"},
        {"rows that descend", update([&](auto& w) { w.row_begin = 3; }), "rows 3 to 2"},
        {"more rows than can be counted", update([&](auto& w) {
           w.row_begin = least;
           w.row_end = most;
         }),
         "6 weights"},
        {"behind the shard", update([&](auto& w) { w.first = 1; }), "weights 1 to 7 of a shard of 6"},
    });
    rule->update_rows(host, good);
  }
}

TEST(Refusals, OfVectorsOfOtherLengths) {
  const floats two(2);
  const floats three(3);
  expect_refused({
      {"inner product", [&] { inner_product(host_stream{}, three, two); }, "inner product: 3 against 2"},
      {"distance", [&] { squared_distance(host_stream{}, two, three); }, "squared distance: 2 against 3"},
  });
}

TEST(Refusals, OfRulesWithoutATable) {
  floats weights(2);
  optimizer_options nothing;
  nothing.rule = custom_rule{};
  const std::vector<std::uint32_t> rows{0};
  expect_refused({
      {"make", [&] { make_optimizer(nothing, 2); }, "optimizer"},
      {"make from an empty table", [] { make_custom_rule({}); }, "optimizer"},
      {"update",
       [&] {
         update(host, custom_update{}, {}, {weights, weights, {}}, {});
       },
       "no table"},
      {"update rows",
       [&] {
         update_rows(host, custom_update{}, {}, {weights, 2, rows, weights}, {});
       },
       "no table"},
      {"load nothing", [] { load_plugin(""); }, "optimizer"},
  });
}

TEST(Refusals, OfNumbersThatAreNone) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {nan, std::numeric_limits<double>::infinity(), -1.0}) {
    const auto made = [&](auto change) {
      return [&, change] {
        optimizer_options o = parse_optimizer("adam");
        change(o);
        make_optimizer(o, 2);
      };
    };
    expect_refused({
        {"learning rate", made([&](auto& o) { o.learning_rate = bad; }), "learning rate"},
        {"weight decay", made([&](auto& o) { o.weight_decay = bad; }), "weight decay"},
        {"l2", made([&](auto& o) { o.l2 = bad; }), "l2"},
        {"clip norm", made([&](auto& o) { o.clip_norm = bad; }), "clip norm"},
        {"beta1", made([&](auto& o) { std::get<adam_options>(o.rule).beta1 = bad; }), "beta1"},
    });
  }
}

} // namespace
} // namespace mailgrad
