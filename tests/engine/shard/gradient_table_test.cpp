#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>

#include <mailgrad/engine/shard/waiting_gradients.hpp>
#include <mailgrad/files/archive.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

/// A shard of 8 weights that plain SGD of learning rate 1 moves.
class GradientTable : public ::testing::Test {
protected:
  using gradients = std::vector<std::pair<std::uint32_t, std::uint64_t>>; ///< worker, step

  void add(std::uint32_t worker, std::uint64_t step, float value, float scale = 1) {
    const push_gradient x = testing::push_of(worker, step, 0, testing::constant_gradient(layout_, value));
    table_.add(x, {x.payload.values, scale});
  }
  void defer(std::uint32_t worker, std::uint64_t step, float value) {
    const push_gradient x = testing::push_of(worker, step, 0, testing::constant_gradient(layout_, value));
    table_.defer(x, {x.payload.values, 1});
  }
  static gradients counted(gradient_table& of) {
    gradients all;
    of.count_new([&](const push_gradient& x) {
      EXPECT_EQ(x.payload.values, nullptr) << "it is in the sum";
      all.emplace_back(x.header.id.worker.value, x.header.id.step.value);
    });
    return all;
  }
  /// How far an update of the present round moves each weight.
  float moves(gradient_table& of) {
    const float before = shard_->snapshot().on_host()[0];
    shard_->update(of.means());
    return before - shard_->snapshot().on_host()[0];
  }

  const parameter_layout layout_ = testing::layout_of({{"w", {8}}}, 1);
  const std::shared_ptr<shard> shard_ = std::make_shared<shard>(layout_, 0, 1, testing::sgd(1));
  gradient_table table_{shard_, 3};
};

TEST_F(GradientTable, GivesTheMeanOfEachWorkersMean) {
  add(2, 1, 3);
  add(0, 1, 2);
  add(0, 2, 4, 0.5F);
  add(0, 3, 2);
  EXPECT_FLOAT_EQ(moves(table_), (3.0F + (2 + 2 + 2) / 3.0F) / 2);
}

TEST_F(GradientTable, KeepsSumsForAllUpdatesOfARoundAndCountsEachGradientOnce) {
  add(1, 1, 4);
  add(0, 1, 2);
  EXPECT_THAT(counted(table_), ElementsAre(Pair(0, 1), Pair(1, 1)));
  EXPECT_FLOAT_EQ(moves(table_), 3);
  add(0, 2, 6);
  EXPECT_EQ(table_.of({0}), 1U);
  EXPECT_THAT(counted(table_), ElementsAre(Pair(0, 2)));
  EXPECT_FLOAT_EQ(moves(table_), (4.0F + (2 + 6) / 2.0F) / 2);
  EXPECT_TRUE(table_.nothing_waits());
  EXPECT_THAT(counted(table_), IsEmpty());
}

TEST_F(GradientTable, HasWhatWasDeferredInTheNextRoundAlone) {
  add(0, 1, 2);
  counted(table_);
  defer(1, 1, 8);
  EXPECT_FALSE(table_.nothing_waits());
  EXPECT_EQ(table_.of({1}), 1U);
  EXPECT_FLOAT_EQ(moves(table_), 2);
  table_.begin_round(1);
  EXPECT_FLOAT_EQ(moves(table_), 8);
  EXPECT_THAT(counted(table_), ElementsAre(Pair(1, 1)));
  table_.begin_round(1);
  EXPECT_FLOAT_EQ(moves(table_), 8) << "that round has begun before";
  table_.begin_round(2);
  EXPECT_THAT(table_.means(), IsEmpty());
  add(1, 2, 1);
  EXPECT_FLOAT_EQ(moves(table_), 1) << "sums begin anew";
}

TEST_F(GradientTable, LetsGradientsGoAtOnce) {
  const auto values = testing::constant_gradient(layout_, 1);
  table_.add(testing::push_of(0, 1, 0, values), {values, 1});
  EXPECT_EQ(values.use_count(), 1);
}

TEST_F(GradientTable, NotesThatALostGradientWasToMakeAnUpdate) {
  table_.add_lost();
  EXPECT_FALSE(table_.nothing_waits());
  EXPECT_FALSE(table_.has_waiting());
  counted(table_);
  EXPECT_TRUE(table_.nothing_waits());
  table_.defer_lost();
  table_.skip_to_waiting();
  EXPECT_FALSE(table_.nothing_waits());
  table_.drop_lost();
  EXPECT_TRUE(table_.nothing_waits());
}

TEST_F(GradientTable, IsKeptWithItsSumsAndWhatIsStillToCount) {
  table_.begin_round(1);
  add(0, 1, 2);
  counted(table_);
  add(0, 2, 4);
  add(1, 1, 5);
  defer(2, 1, 7);
  saved_fields written;
  table_.keep(written, {});
  saved_fields read(written.text(), written.arrays());
  gradient_table other(shard_, 3);
  other.keep(read, {});
  for (gradient_table* t : {&table_, &other}) {
    EXPECT_THAT(counted(*t), ElementsAre(Pair(0, 2), Pair(1, 1)));
    EXPECT_FLOAT_EQ(moves(*t), (3.0F + 5) / 2);
    EXPECT_EQ(t->of({2}), 1U);
    t->begin_round(1);
    EXPECT_FLOAT_EQ(moves(*t), (3.0F + 5) / 2) << "this round is not over";
    t->begin_round(2);
    EXPECT_FLOAT_EQ(moves(*t), 7);
  }
}

} // namespace
} // namespace mailgrad
