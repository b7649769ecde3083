#include <mailgrad/tests/actors/run/evaluator_fixture.hpp>

#include <mailgrad/engine/shard/shard.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

/// An evaluator of a model in two shards, which the test plays.
class Evaluator : public testing::evaluator_test {
protected:
  evaluator_options options() {
    evaluator_options o = evaluator_test::options();
    o.store = store_;
    o.stop = [this] { return stop_; };
    return o;
  }
  shard_read answer(std::uint32_t s) const {
    const shard held(*plan_.layout, s, plan_.first_values(s), plan_.shard_rule);
    return {{s}, {7}, false, held.snapshot()};
  }

  std::shared_ptr<hogwild_store> store_ = std::make_shared<hogwild_store>(weights_);
  bool stop_ = false;
};

TEST_F(Evaluator, TestsTheWeightsOfAllShards) {
  const caf::actor tests = start<evaluator>(options());
  auto asker = ask<weights_tested>(tests, test_weights{11});
  for (auto& s : shards_) EXPECT_THAT(s.heard<read_shard>(), SizeIs(1));
  tell(tests, answer(1));
  EXPECT_THAT(asker.heard<weights_tested>(), IsEmpty()) << "the first shard has not answered";
  tell(tests, answer(0));
  ASSERT_THAT(asker.heard<weights_tested>(), SizeIs(1));
  const weights_tested& found = asker.heard<weights_tested>()[0];
  EXPECT_TRUE(found.whole);
  EXPECT_EQ(found.what.steps, 11U);
  EXPECT_DOUBLE_EQ(found.what.loss, expected_loss());
  EXPECT_TRUE(found.what.accuracy);
}

TEST_F(Evaluator, ReadsTheSharedBlockUnderHogwild) {
  const caf::actor tests = start<evaluator>(options());
  auto asker = ask<weights_tested>(tests, test_weights{11});
  for (std::uint32_t s = 0; s < 2; ++s) tell(tests, shard_read{{s}, {7}, true, {}});
  ASSERT_THAT(asker.heard<weights_tested>(), SizeIs(1));
  EXPECT_DOUBLE_EQ(asker.heard<weights_tested>()[0].what.loss, expected_loss());
}

TEST_F(Evaluator, NeedsNoShardInARunOfHogwildAlone) {
  evaluator_options o = options();
  o.shards.clear();
  const caf::actor tests = start<evaluator>(std::move(o));
  auto asker = ask<weights_tested>(tests, test_weights{11});
  ASSERT_THAT(asker.heard<weights_tested>(), SizeIs(1));
  EXPECT_DOUBLE_EQ(asker.heard<weights_tested>()[0].what.loss, expected_loss());
}

TEST_F(Evaluator, SaysThatATestWasGivenUp) {
  stop_ = true;
  evaluator_options o = options();
  o.shards.clear();
  const caf::actor tests = start<evaluator>(std::move(o));
  auto asker = ask<weights_tested>(tests, test_weights{11});
  ASSERT_THAT(asker.heard<weights_tested>(), SizeIs(1));
  EXPECT_FALSE(asker.heard<weights_tested>()[0].whole);
  EXPECT_THAT(asker.heard<weights_tested>()[0].why_left_out, IsEmpty());
}

TEST_F(Evaluator, SaysWhyATestFailed) {
  evaluator_options o = options();
  o.shards.clear();
  o.stop = []() -> bool { throw std::runtime_error("no such label"); };
  const caf::actor tests = start<evaluator>(std::move(o));
  auto asker = ask<weights_tested>(tests, test_weights{11});
  ASSERT_THAT(asker.heard<weights_tested>(), SizeIs(1));
  EXPECT_FALSE(asker.heard<weights_tested>()[0].whole);
  EXPECT_EQ(asker.heard<weights_tested>()[0].what.steps, 11U);
  EXPECT_EQ(asker.heard<weights_tested>()[0].why_left_out, "no such label");
}

} // namespace
} // namespace mailgrad
