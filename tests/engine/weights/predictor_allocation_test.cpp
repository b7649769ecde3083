#include <mailgrad/engine/weights/predictor.hpp>
#include <mailgrad/tests/engine/weights/drawn_weights.hpp>
#include <mailgrad/tests/support/allocation_count.hpp>

#include <gtest/gtest.h>

// What a program that answers again and again asks of the memory.

namespace mailgrad {
namespace {

using testing::allocations_of;
using testing::drawn_weights;

class PredictorAllocation : public ::testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    if (!testing::can_count_allocations()) GTEST_SKIP() << "this build cannot count allocations";
  }

  static model_card pictures(std::string model) {
    model_card card;
    card.model = std::move(model);
    card.request = {.sample_dims = {28, 28, 1}, .classes = 10};
    card.divisors = {255};
    return card;
  }
};

/// One picture, several, and more than one program takes at once. The first call for a number of them builds
/// a program, and is seen to allocate.
TEST_P(PredictorAllocation, IsNoneAfterTheFirstCallForANumberOfSamples) {
  predictor trained(drawn_weights(pictures(GetParam())));
  for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{300}}) {
    const std::vector<float> samples(count * trained.inputs(), 100);
    std::vector<float> chances(count * trained.outputs());
    EXPECT_GT(allocations_of([&] { trained.probabilities(samples, chances); }), 0U) << count;
    EXPECT_EQ(allocations_of([&] { trained.probabilities(samples, chances); }), 0U) << count;
    EXPECT_EQ(allocations_of([&] { trained.answers(samples, chances); }), 0U) << count;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PredictorAllocation,
                         ::testing::Values("softmax", "mlp:hidden=32x16,dropout=0.5", "lenet"),
                         [](const auto& of) {
                           return std::string(of.param).substr(0, std::string(of.param).find(':'));
                         });

} // namespace
} // namespace mailgrad
