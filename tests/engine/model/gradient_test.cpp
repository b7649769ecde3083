#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/worker/hogwild_writer.hpp>
#include <mailgrad/engine/worker/local_steps.hpp>
#include <mailgrad/tests/engine/layouts.hpp>

#include <gmock/gmock.h>

// Gradients that are about some variables and say nothing of the others, and what is made of them.

namespace mailgrad {
namespace {

using testing::add_rows;
using testing::first_values;
using testing::layout_of;
using testing::random_values;
using namespace ::testing;

/// Four variables of one, two, one and one cache lines, of which the last is a table.
parameter_layout four_variables(std::size_t shards = 1) {
  return layout_of({{"a", {16}}, {"b", {20}}, {"c", {5}}, {"table", {4, 4}, true}}, shards);
}

using variable_list = std::vector<std::size_t>;

/// Random where it is about something, zero elsewhere.
std::shared_ptr<gradient> gradient_of(const parameter_layout& layout, const variable_list& variables,
                                      std::uint64_t seed) {
  const std::vector<float> values = random_values(layout.dense_size(), seed);
  auto g = testing::constant_gradient(layout, 0);
  g->covered = coverage_of(layout, variables);
  const shard_range all{0, layout.dense_size()};
  for (const shard_range& r : ranges_of(g->covered, all))
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(r.begin), r.size(),
                g->dense.on_host<float>().begin() + static_cast<std::ptrdiff_t>(r.begin));
  return g;
}

optimizer_options decaying(std::string_view rule) {
  optimizer_options o = parse_optimizer(rule);
  o.learning_rate = 0.1;
  o.weight_decay = 0.5;
  return o;
}

std::vector<float> part_of(std::span<const float> all, const parameter_layout& layout, std::size_t variable) {
  const placed_variable& v = layout.variables()[variable];
  const auto values = all.subspan(v.offset, v.dims.size());
  return {values.begin(), values.end()};
}

TEST(Coverage, JoinsNeighboursAndLeavesTablesOut) {
  const parameter_layout layout = four_variables();
  EXPECT_THAT(*coverage_of(layout, variable_list{1, 0}), ElementsAre(FieldsAre(0, 48)));
  EXPECT_THAT(*coverage_of(layout, variable_list{0, 2, 3}), ElementsAre(FieldsAre(0, 16), FieldsAre(48, 64)));
  EXPECT_THAT(*coverage_of(layout, variable_list{3}), ElementsAre());
  EXPECT_EQ(coverage_of(layout, variable_list{2, 1, 0}), nullptr) << "nothing is left out";
  EXPECT_EQ(coverage_of(layout_of({{"table", {4, 4}, true}}, 1), variable_list{0}), nullptr);
}

TEST(Coverage, KnowsWhatLiesInIt) {
  const auto covered = coverage_of(four_variables(), variable_list{0, 2});
  EXPECT_TRUE(covers(covered, {0, 16}));
  EXPECT_TRUE(covers(covered, {52, 60}));
  EXPECT_FALSE(covers(covered, {16, 48}));
  EXPECT_FALSE(covers(coverage_of(four_variables(), variable_list{3}), {0, 16}));
  EXPECT_TRUE(covers(nullptr, {0, 64}));
}

class CoverageOfRule : public ::testing::TestWithParam<std::string_view> {};

TEST_P(CoverageOfRule, LeavesTheRestAloneInWeightsAndInState) {
  const parameter_layout layout = four_variables();
  const optimizer_options o = decaying(GetParam());
  shard mixed(layout, 0, 3, o);
  shard only_a(layout, 0, 3, o);
  for (std::uint64_t step = 0; step < 8; ++step) {
    const auto of_a = gradient_of(layout, {0}, step);
    const auto of_bc = gradient_of(layout, {1, 2}, 100 + step);
    const bool turn_of_a = step % 2 == 0;
    const contribution one{turn_of_a ? of_a : of_bc, 0.5F};
    const contribution nothing{gradient_of(layout, {}, 0)};
    mixed.update({&one, 1});
    only_a.update(turn_of_a ? std::span(&one, 1) : std::span(&nothing, 1));
    const auto now = mixed.snapshot().on_host();
    EXPECT_EQ(part_of(now, layout, 0), part_of(only_a.snapshot().on_host(), layout, 0)) << "step " << step;
  }
  EXPECT_EQ(mixed.version().value, 8U);
  const std::vector<float> began = first_values(layout, 3);
  const auto untouched = only_a.snapshot().on_host();
  for (const std::size_t v : {1U, 2U, 3U})
    EXPECT_EQ(part_of(untouched, layout, v), part_of(began, layout, v)) << v;
  for (const std::size_t v : {0U, 1U, 2U})
    EXPECT_NE(part_of(mixed.snapshot().on_host(), layout, v), part_of(began, layout, v)) << v;
}

TEST_P(CoverageOfRule, MakesTheSameWeightsHoweverTheyAreCutAndWhoeverHoldsThem) {
  const optimizer_options o = decaying(GetParam());
  const parameter_layout whole = four_variables();
  const parameter_layout halves = four_variables(3);
  shard one(whole, 0, 3, o);
  std::vector<shard> three;
  for (std::uint32_t s = 0; s < 3; ++s) three.emplace_back(halves, s, 3, o);
  std::vector<snapshot> held;
  for (std::uint64_t step = 0; step < 6; ++step) {
    const contribution two[] = {{gradient_of(whole, {0, 1}, step), 0.5F},
                                {gradient_of(whole, {1, 2}, 50 + step), 0.5F}};
    const std::span work = std::span(two).first(step % 2 + 1);
    one.update(work);
    for (shard& s : three) {
      held.push_back(s.snapshot());
      s.update(work);
    }
  }
  std::vector<float> joined;
  for (const shard& s : three) std::ranges::copy(s.snapshot().on_host(), std::back_inserter(joined));
  EXPECT_THAT(joined, ElementsAreArray(one.snapshot().on_host()));
}

TEST_P(CoverageOfRule, IsHogwildsToo) {
  const parameter_layout layout = four_variables();
  const optimizer_options o = decaying(GetParam());
  shard plain(layout, 0, 3, o);
  const auto store = std::make_shared<hogwild_store>(first_values(layout, 3));
  hogwild_writer writer(layout, store, o);
  for (std::uint64_t step = 0; step < 6; ++step) {
    const contribution one{gradient_of(layout, {step % 2, 2}, step)};
    plain.update({&one, 1});
    writer.begin_step();
    writer.write(*one.values, 1);
  }
  std::vector<float> written(layout.size());
  store->load(0, written);
  EXPECT_THAT(written, ElementsAreArray(plain.snapshot().on_host()));
}

TEST_P(CoverageOfRule, IsThatOfLocalStepsToo) {
  const auto layout = std::make_shared<parameter_layout>(layout_of({{"a", {16}}, {"b", {20}}}, 1));
  local_steps local(layout, {2, decaying(GetParam()), {}});
  const shard weights(*layout, 0, 3, testing::sgd(1));
  local.receive(0, weights.snapshot());
  for (std::uint64_t step = 0; step < 2; ++step) local.step(gradient_of(*layout, {1}, step), 1);
  const auto difference = local.difference();
  EXPECT_THAT(*difference->covered, ElementsAre(FieldsAre(16, 48)));
  EXPECT_THAT(part_of(difference->dense.on_host<float>(), *layout, 0), Each(0.0F));
  EXPECT_NE(part_of(difference->dense.on_host<float>(), *layout, 1), std::vector<float>(20));
}

INSTANTIATE_TEST_SUITE_P(EveryRule, CoverageOfRule,
                         ::testing::Values("sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam",
                                           "adamw"));

TEST(Coverage, SumsWhatThereIs) {
  const parameter_layout layout = four_variables();
  shard s(layout, 0, 3, testing::sgd(1));
  const std::vector<float> before = first_values(layout, 3);
  const auto both = testing::constant_gradient(layout, 4);
  both->covered = coverage_of(layout, variable_list{0, 1});
  const auto second = testing::constant_gradient(layout, 8);
  second->covered = coverage_of(layout, variable_list{1});
  const contribution two[] = {{both, 0.5F}, {second, 0.5F}};
  s.update(two);
  const auto after = s.snapshot().on_host();
  EXPECT_FLOAT_EQ(after[0], before[0] - 2);
  EXPECT_FLOAT_EQ(after[16], before[16] - 6);
  EXPECT_EQ(after[48], before[48]);
}

class RowJoin : public ::testing::Test {
protected:
  /// Two lists of table 1 and one of table 2.
  static gradient three_lists() {
    gradient g;
    add_rows(g, 1, 2, {4, 0, -1, 9}, {1, 2, 3, 4, 5, 6, 7, 8});
    add_rows(g, 2, 1, {7}, {20});
    add_rows(g, 1, 2, {4}, {10, 11});
    return g;
  }
  row_join join_;
};

TEST_F(RowJoin, PutsTheListsOfATableOneAfterTheOther) {
  const gradient g = three_lists();
  join_.begin(2);
  join_.add(g, 1);
  EXPECT_EQ(join_.rows().data(), g.sparse[1].rows.data()) << "one that comes alone stays where it lies";
  EXPECT_EQ(join_.values().data(), g.sparse[1].values.data());
  join_.begin(1);
  join_.add(g, 1);
  EXPECT_THAT(join_.rows(), ElementsAre(4, 0, 4)) << "a negative row ends its list";
  EXPECT_THAT(join_.values(), ElementsAre(1, 2, 3, 4, 10, 11));
}

TEST_F(RowJoin, ScalesEachGradientByItsOwnFactor) {
  const gradient g = three_lists();
  join_.begin(2);
  join_.add(g, 1);
  join_.add(g, 0.5F);
  join_.add(g, 1);
  EXPECT_THAT(join_.rows(), ElementsAre(7, 7, 7));
  EXPECT_THAT(join_.values(), ElementsAre(20, 10, 20));
  join_.begin(2);
  join_.add(g, 0.25F);
  EXPECT_THAT(join_.values(), ElementsAre(5)) << "one list that does not count as it is";
  join_.begin(0);
  join_.add(g, 1);
  EXPECT_THAT(join_.rows(), IsEmpty()) << "nobody lists that table";
  EXPECT_THAT(join_.values(), IsEmpty());
}

class ObjectPool : public ::testing::Test {
protected:
  int made_ = 0;
  object_pool<int> pool_{[this] { return std::make_shared<int>(made_++); }};
};

TEST_F(ObjectPool, LendsTheSameObjectAgainWhenItsLastHolderLetGo) {
  EXPECT_EQ(made_, 0) << "nothing is made before it is asked";
  EXPECT_EQ(pool_.size(), 0U);
  auto first = pool_.take();
  auto other_holder = first;
  const int* const address = first.get();
  first.reset();
  EXPECT_NE(pool_.take().get(), address) << "somebody still holds it";
  other_holder.reset();
  EXPECT_EQ(pool_.take().get(), address);
  EXPECT_EQ(made_, 2);
  for (int i = 0; i < 100; ++i) {
    const auto a = pool_.take(), b = pool_.take();
    EXPECT_NE(a, b);
  }
  EXPECT_EQ(made_, 2) << "in a steady state";
}

TEST_F(ObjectPool, OutlivesItsPool) {
  std::shared_ptr<int> held;
  {
    object_pool<int> pool([] { return std::make_shared<int>(7); });
    held = pool.take();
  }
  EXPECT_EQ(*held, 7);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(ObjectPool, MakesAnotherInASmallPoolOnlyWhileAllAreOut) {
  std::vector<std::shared_ptr<int>> out;
  for (int i = 0; i < 32; ++i) out.push_back(pool_.take());
  for (std::size_t i = 0; i < 32; ++i) {
    const int* const address = out[i].get();
    out[i].reset();
    out[i] = pool_.take();
    EXPECT_EQ(out[i].get(), address);
  }
  EXPECT_EQ(made_, 32);
}

/// Objects come back in the order in which they were lent, or in any other.
TEST_F(ObjectPool, StaysSmallWhenManyAreOut) {
  constexpr std::size_t many = 2000;
  for (const std::size_t stride : {std::size_t{1}, std::size_t{767}}) {
    std::vector<std::shared_ptr<int>> out(many);
    for (std::size_t i = 0; i < 20 * many; ++i) {
      auto& slot = out[i * stride % many];
      slot.reset();
      slot = pool_.take();
    }
    EXPECT_LT(pool_.size(), 2 * many);
  }
}

} // namespace
} // namespace mailgrad
