#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/worker/hogwild_writer.hpp>
#include <mailgrad/tests/engine/layouts.hpp>

#include <gmock/gmock.h>

#include <thread>

namespace mailgrad {
namespace {

using testing::add_rows;
using testing::constant_gradient;
using testing::dense_gradient;
using testing::first_values;
using testing::layout_of;
using testing::random_values;
using testing::sgd;

std::vector<float> values_of(const hogwild_store& store) {
  std::vector<float> values(store.size());
  store.load(0, values);
  return values;
}

/// Returns how many updates of others came in between.
std::uint64_t step(hogwild_writer& writer, const gradient& g, float scale = 1) {
  writer.begin_step();
  return writer.write(g, scale);
}

class HogwildWriterAlone : public ::testing::TestWithParam<std::string_view> {
protected:
  const optimizer_options rule_ = parse_optimizer(GetParam());
};

TEST_P(HogwildWriterAlone, MakesTheWeightsOfThePlainOptimiserBitForBit) {
  const parameter_layout layout = layout_of({{"w", {37, 31}}, {"b", {31}}}, 1); // two tiles and a rest
  shard plain(layout, 0, 3, rule_);
  const auto store = std::make_shared<hogwild_store>(first_values(layout, 3));
  hogwild_writer writer(layout, store, rule_);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const auto g = dense_gradient(random_values(layout.dense_size(), i));
    testing::update_once(plain, g, 0.75F);
    EXPECT_EQ(step(writer, *g, 0.75F), 0U) << "nobody else writes";
    ASSERT_THAT(values_of(*store), ::testing::ElementsAreArray(plain.snapshot().on_host())) << "step " << i;
  }
}

/// Another writer goes on with the state of this one, in a block with the same weights.
TEST_P(HogwildWriterAlone, GoesOnFromWhatItKept) {
  const parameter_layout layout = layout_of({{"w", {37}}, {"table", {12, 3}, true}}, 1);
  const auto gradient_of = [&](std::uint64_t i) {
    auto g = dense_gradient(random_values(layout.dense_size(), i));
    add_rows(*g, 1, 3, {2, 7}, random_values(6, i + 50));
    return g;
  };
  const auto whole = std::make_shared<hogwild_store>(first_values(layout, 3));
  hogwild_writer writer(layout, whole, rule_);
  const auto again = std::make_shared<hogwild_store>(first_values(layout, 9));
  hogwild_writer later(layout, again, rule_);
  for (std::uint64_t i = 0; i < 10; ++i) {
    if (i == 4) {
      saved_fields kept;
      writer.keep(kept);
      saved_fields read(kept.text(), kept.arrays());
      later.keep(read);
      again->store(0, values_of(*whole));
      again->go_on_from(whole->version(), 0);
    }
    step(writer, *gradient_of(i));
    if (i >= 4) step(later, *gradient_of(i));
  }
  EXPECT_EQ(values_of(*again), values_of(*whole));
}

INSTANTIATE_TEST_SUITE_P(EveryRule, HogwildWriterAlone,
                         ::testing::Values("sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam",
                                           "adamw"));

// With a velocity of 0.5 v + g, two updates by 1 and 2 in place of one by 3 would move the row by 1 + 2.5.
TEST(HogwildWriter, MovesARowThatIsGatheredTwiceOnce) {
  const parameter_layout layout = layout_of({{"table", {16, 1}, true}}, 1);
  const auto store = std::make_shared<hogwild_store>(std::vector<float>(layout.size()));
  optimizer_options o = parse_optimizer("momentum:momentum=0.5");
  o.learning_rate = 1;
  hogwild_writer writer(layout, store, o);
  gradient g;
  add_rows(g, 0, 1, {3}, {-1});
  add_rows(g, 0, 1, {5, 3}, {-8, -2});
  for (const float expected : {3.0F, 7.5F}) {
    step(writer, g);
    EXPECT_EQ(store->load(3), expected);
  }
  EXPECT_EQ(store->load(5), 20.0F);
}

// Rates 1, 1, 1/2, 1/2, 1/4, 1/4. A count of each writer's own would give 1, 1, 1, 1, 1/2, 1/2.
TEST(HogwildWriter, FollowsTheScheduleByTheUpdatesOfAll) {
  const parameter_layout layout = layout_of({{"w", {16}}, {"table", {16, 1}, true}}, 1);
  const auto store = std::make_shared<hogwild_store>(std::vector<float>(layout.size()));
  optimizer_options o = sgd(1);
  o.schedule = parse_schedule("step:every=2,factor=0.5");
  hogwild_writer first(layout, store, o);
  hogwild_writer second(layout, store, o);
  const auto g = constant_gradient(layout, -1);
  add_rows(*g, 1, 1, {2}, {-1});
  for (int i = 0; i < 3; ++i)
    for (hogwild_writer* const writer : {&first, &second}) step(*writer, *g);
  EXPECT_EQ(store->load(0), 3.5F);
  EXPECT_EQ(store->load(layout.dense_size() + 2), 3.5F);
}

TEST(HogwildWriter, CountsTheUpdatesOfOthersBetweenReadingAndWriting) {
  const parameter_layout layout = layout_of({{"w", {16}}}, 1);
  const auto store = std::make_shared<hogwild_store>(first_values(layout, 1));
  hogwild_writer slow(layout, store, sgd(1));
  hogwild_writer fast(layout, store, sgd(1));
  const auto g = constant_gradient(layout, 0);
  EXPECT_EQ(slow.begin_step(), store->racing_view()) << "it reads the shared block itself";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(fast, *g), 0U);
  EXPECT_EQ(slow.write(*g, 1), 3U);
  EXPECT_EQ(step(slow, *g), 0U);
  EXPECT_EQ(store->version(), 5U);
}

TEST(HogwildWriter, LosesNothingWhereWritersTouchRowsOfTheirOwn) {
  constexpr int steps = 3000;
  const parameter_layout layout = layout_of({{"table", {64, 2}, true}}, 1);
  const auto store = std::make_shared<hogwild_store>(std::vector<float>(layout.size()));
  const auto work = [&](std::int32_t first_row) {
    hogwild_writer writer(layout, store, sgd(1));
    gradient g;
    add_rows(g, 0, 2, {first_row, first_row + 2, first_row}, {-1, -1, -1, -1, -1, -1});
    for (int i = 0; i < steps; ++i) step(writer, g);
  };
  {
    const std::jthread even(work, 0);
    const std::jthread odd(work, 1); // shares cache lines with the other, but no coordinate
  }
  EXPECT_EQ(store->version(), 2U * steps);
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t column = 0; column < 2; ++column)
      EXPECT_EQ(store->load(row * 2 + column), (row < 2 ? 2.0F : 1.0F) * steps) << row;
}

TEST(HogwildWriter, NeverTearsACoordinateThatTwoWritersShare) {
  constexpr int steps = 3000;
  const parameter_layout layout = layout_of({{"table", {16, 1}, true}}, 1);
  const auto store = std::make_shared<hogwild_store>(std::vector<float>(layout.size()));
  const auto work = [&] {
    hogwild_writer writer(layout, store, sgd(1));
    gradient g;
    add_rows(g, 0, 1, {9}, {-1});
    for (int i = 0; i < steps; ++i) step(writer, g);
  };
  {
    const std::jthread first(work);
    const std::jthread second(work);
  }
  const float sum = store->load(9); // an increment may be lost, but none is ever half there
  EXPECT_EQ(sum, static_cast<float>(static_cast<int>(sum)));
  EXPECT_GE(sum, 1.0F);
  EXPECT_LE(sum, 2.0F * steps);
}

} // namespace
} // namespace mailgrad
