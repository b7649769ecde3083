#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/actors/run/evaluator_fixture.hpp>

#include <gmock/gmock.h>

#include <stdexcept>

namespace mailgrad {
namespace {

using mailgrad::testing::only;
using ::testing::IsEmpty, ::testing::SizeIs;

class Evaluator : public testing::evaluator_test {
protected:
  evaluator_options options() {
    evaluator_options o = evaluator_test::options();
    o.store = store_;
    o.stop = [] { return false; };
    return o;
  }
  shard_read answer(std::uint32_t s) const {
    const shard held(*plan_.layout, s, plan_.first_values(s), plan_.shard_rule);
    return {{s}, {7}, false, held.snapshot()};
  }
  /// What a test finds in a run of hogwild alone, which has no shards.
  weights_tested tested_alone(std::function<bool()> stop) {
    evaluator_options o = options();
    o.shards.clear();
    o.stop = std::move(stop);
    auto asker = ask<weights_tested>(start<evaluator>(std::move(o)), test_weights{11});
    return only(asker.heard<weights_tested>());
  }

  std::shared_ptr<hogwild_store> store_ = std::make_shared<hogwild_store>(weights_);
};

TEST_F(Evaluator, TestsTheWeightsOfAllShards) {
  const caf::actor tests = start<evaluator>(options());
  auto asker = ask<weights_tested>(tests, test_weights{11});
  for (auto& s : shards_) EXPECT_THAT(s.heard<read_shard>(), SizeIs(1));
  tell(tests, answer(1));
  EXPECT_THAT(asker.heard<weights_tested>(), IsEmpty()) << "the first shard has not answered";
  tell(tests, answer(0));
  const weights_tested& found = only(asker.heard<weights_tested>());
  EXPECT_TRUE(found.whole);
  EXPECT_EQ(found.what.steps, 11U);
  EXPECT_DOUBLE_EQ(found.what.loss, expected_loss());
  EXPECT_TRUE(found.what.accuracy);
}

TEST_F(Evaluator, ReadsTheSharedBlockUnderHogwild) {
  const caf::actor tests = start<evaluator>(options());
  auto asker = ask<weights_tested>(tests, test_weights{11});
  for (std::uint32_t s = 0; s < 2; ++s) tell(tests, shard_read{{s}, {7}, true, {}});
  EXPECT_DOUBLE_EQ(only(asker.heard<weights_tested>()).what.loss, expected_loss());
}

TEST_F(Evaluator, NeedsNoShardInARunOfHogwildAlone) {
  EXPECT_DOUBLE_EQ(tested_alone([] { return false; }).what.loss, expected_loss());
}

TEST_F(Evaluator, SaysThatATestWasGivenUp) {
  const weights_tested found = tested_alone([] { return true; });
  EXPECT_FALSE(found.whole);
  EXPECT_THAT(found.why_left_out, IsEmpty());
}

TEST_F(Evaluator, SaysWhyATestFailed) {
  const weights_tested found = tested_alone([]() -> bool { throw std::runtime_error("no such label"); });
  EXPECT_FALSE(found.whole);
  EXPECT_EQ(found.what.steps, 11U);
  EXPECT_EQ(found.why_left_out, "no such label");
}

} // namespace
} // namespace mailgrad
