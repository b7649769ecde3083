#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/shard/update_maker.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mailgrad {
using messaging::on;

namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;

gradient_header header_of(std::uint32_t worker, std::uint64_t step) { return {{{}, {worker}, {}, {step}}}; }

/// Gradients 1, 3 and 5 of three workers, each counting a quarter.
void add_three(shard_updater& updater, const parameter_layout& layout) {
  for (const std::uint32_t k : {0U, 1U, 2U}) {
    const contribution what{testing::constant_gradient(layout, 1 + 2 * static_cast<float>(k)), 0.25F, {}};
    updater.add(header_of(k, 1), &what);
  }
}
constexpr float moved_by_three = (1 + 3 + 5) / 4.0F;

/// Makes one update with help, as a parameter actor does.
class helped_actor {
public:
  static constexpr const char* name = "mailgrad.helped-actor";

  helped_actor(caf::event_based_actor* self, std::shared_ptr<shard> weights, std::vector<caf::actor> helpers,
               std::shared_ptr<const time_source> time, const parameter_layout* layout)
      : self_(self), updater_(self, std::move(weights), std::move(helpers), std::move(time)) {
    add_three(updater_, *layout);
  }
  caf::behavior make_behavior() {
    updater_.ask_for_help(1);
    compute_part();
    return {
        on(self_, [this](const go_on&) { compute_part(); }),
        on(self_, [this](const update_helped&) { updater_.end(); }),
    };
  }

private:
  void compute_part() {
    if (updater_.under_way() && updater_.compute_part()) updater_.end();
  }

  caf::event_based_actor* self_;
  shard_updater updater_;
};

class ShardUpdater : public testing::DeterministicTest {
protected:
  /// How far the last weight is below where it began.
  float moved() const { return begin_ - weights_->snapshot().on_host().back(); }

  const parameter_layout layout_ = testing::layout_of({{"w", {5 * parallel_update::part_size}}}, 1);
  const std::shared_ptr<shard> weights_ = std::make_shared<shard>(layout_, 0, 1, testing::sgd(1));
  const float begin_ = weights_->snapshot().on_host().back();
};

TEST_F(ShardUpdater, MakesOneVersionOfAllThatWasAdded) {
  shard_updater updater(nullptr, weights_, {}, time_);
  add_three(updater, layout_);
  updater.update_alone(2);
  EXPECT_EQ(weights_->version().value, 1U);
  EXPECT_NEAR(moved(), 2 * moved_by_three, 1e-5);
  EXPECT_FALSE(updater.under_way());
}

TEST_F(ShardUpdater, DividesItsTimeAmongItsGradientsUntilTheyAreCleared) {
  shard_updater updater(nullptr, weights_, {}, time_);
  time_->advance(1s);
  add_three(updater, layout_);
  updater.update_alone(1);
  time_->advance(6s);
  ASSERT_THAT(updater.gradients(), SizeIs(3));
  EXPECT_EQ(updater.gradients()[2].id.worker.value, 2U);
  EXPECT_EQ(updater.share_of_each(), 2s);
  EXPECT_EQ(time_->now() - updater.begun(), 6s);
  updater.clear();
  EXPECT_THAT(updater.gradients(), IsEmpty());
  const contribution one{testing::constant_gradient(layout_, 1), 1, {}};
  updater.add(header_of(1, 2), &one);
  updater.add(header_of(1, 3), nullptr); // `one` contains it
  ASSERT_THAT(updater.gradients(), SizeIs(2));
  updater.update_alone(1);
  EXPECT_NEAR(moved(), moved_by_three + 1, 1e-5) << "those of the update before count once";
}

TEST_F(ShardUpdater, AsksNobodyWhereThereIsNobody) {
  EXPECT_FALSE(shard_updater(nullptr, weights_, {}, time_).divides());
  EXPECT_TRUE(shard_updater(nullptr, weights_, {start<update_helper>()}, time_).divides());
}

TEST_F(ShardUpdater, MakesTheSameVersionWithHelp) {
  for (const std::size_t count : {0U, 1U, 7U}) {
    const auto weights = std::make_shared<shard>(layout_, 0, 1, testing::sgd(1));
    std::vector<caf::actor> helpers;
    for (std::size_t h = 0; h < count; ++h) helpers.push_back(start<update_helper>());
    start<helped_actor>(weights, helpers, time_, &layout_);
    run();
    EXPECT_EQ(weights->version().value, 1U);
    EXPECT_NEAR(begin_ - weights->snapshot().on_host().back(), moved_by_three, 1e-5) << count << " helpers";
  }
}

} // namespace
} // namespace mailgrad
