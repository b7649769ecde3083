#include <mailgrad/kernels/softmax.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>
#include <mailgrad/tests/support/refusal.hpp>

namespace mailgrad {
namespace {

std::int32_t right_of(const std::vector<float>& logits, const std::vector<std::int32_t>& labels,
                      std::size_t columns) {
  std::int32_t right = -1;
  count_right_labels(host_stream{}, logits.data(), labels.data(), &right, labels.size(), columns);
  return right;
}

TEST(CountRightLabels, CountsTheRowsWhoseLargestLogitIsThatOfTheirLabel) {
  const std::vector<float> logits{1, 3, 2, /**/ 0, -1, -2, /**/ 4, 5, 6};
  EXPECT_EQ(right_of(logits, {1, 0, 2}, 3), 3);
  EXPECT_EQ(right_of(logits, {1, 1, 1}, 3), 1);
  EXPECT_EQ(right_of({}, {}, 3), 0);
}

TEST(CountRightLabels, TakesTheFirstOfEqualLogits) {
  EXPECT_EQ(right_of({7, 7, 7}, {0}, 3), 1);
  EXPECT_EQ(right_of({7, 7, 7}, {1}, 3), 0);
}

TEST(CountRightLabels, TakesNoLabelThatIsNoClassForRight) {
  EXPECT_EQ(right_of({1, 2, 1, 2}, {2, -1}, 2), 0);
}

TEST(CountRightLabels, RefusesAStreamOfAGpuInABuildWithoutCuda) {
  MAILGRAD_SKIP_WITH_CUDA();
  EXPECT_THROW(count_right_labels(cuda_stream{}, nullptr, nullptr, nullptr, 0, 1), device_error);
}

TEST(Refusals, OfLabelsThatAreNoClass) {
  const std::vector<float> logits(6);
  std::vector<float> probabilities(6);
  float loss = 0;
  for (const std::int32_t label : {3, 9, -1, -2147483647}) {
    const std::int32_t labels[] = {0, label};
    testing::expect_refused(
        "label", "label " + std::to_string(label) + ", but the logits have 3 classes",
        [&] { cross_entropy(host_stream{}, logits.data(), labels, &loss, probabilities.data(), 2, 3); });
  }
}

} // namespace
} // namespace mailgrad
