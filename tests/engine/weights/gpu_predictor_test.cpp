#include <mailgrad/engine/weights/predictor.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/engine/weights/drawn_weights.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>

#include <gmock/gmock.h>

#include <span>

// A trained model on a GPU answers as it does on the host. One source for two GPUs: the simulated one, and
// a real one.

namespace mailgrad {
namespace {

constexpr device first_gpu{device_kind::cuda, 0};

class GpuPredictor : public ::testing::Test {
protected:
  void SetUp() override { MAILGRAD_NEEDS_GPU(); }

  static void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5) << i;
  }
};

TEST_F(GpuPredictor, AnswersAsTheHostDoes) {
  const auto data = testing::small_data(300);
  const saved_weights trained = testing::drawn_weights(testing::small_model(), *data);
  predictor here(testing::small_model(), trained), made(testing::small_model(), trained, first_gpu);
  predictor there(std::move(made));
  EXPECT_THROW(predictor(testing::small_model(), trained, device{device_kind::cuda, 99}), device_error);
  const std::vector<float>& numbers = std::get<float_features>(data->train.features()).values;
  for (const std::size_t count : {1U, 3U, 300U, 3U}) {
    const std::span samples = std::span(numbers).first(count * there.inputs());
    std::vector<float> found(count * there.outputs()), expected(found.size());
    there.probabilities(samples, found);
    here.probabilities(samples, expected);
    expect_near(found, expected);
  }
  expect_near(there.answers(data->train), here.answers(data->train));
  const evaluation found = there.test(data->train), expected = here.test(data->train);
  EXPECT_NEAR(found.loss, expected.loss, 1e-5);
  EXPECT_EQ(found.accuracy, expected.accuracy);
  EXPECT_EQ(found.confusion, expected.confusion);
}

TEST_F(GpuPredictor, WritesTheTextThatTheHostWrites) {
  const auto data = testing::text();
  const model_function gpt = *built_in_model("gpt:layers=1,width=16,heads=2");
  const saved_weights trained = testing::drawn_weights(gpt, *data);
  predictor here(gpt, trained), there(gpt, trained, first_gpu);
  const text_sample_options o{.length = 24, .seed = 3, .prompt = "abe"};
  EXPECT_EQ(there.text(o), here.text(o));
}

} // namespace
} // namespace mailgrad
