#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/weights/predictor.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/engine/weights/drawn_model.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::small_data;
using testing::small_model;
using testing::weights_of;
using namespace ::testing;

/// The numbers of the first samples, as a file has them.
std::vector<float> raw(const data_split& data, std::size_t count, float divisor) {
  const auto& features = std::get<float_features>(data.test.features()).values;
  std::vector<float> numbers(features.begin(), features.begin() + static_cast<std::ptrdiff_t>(count * 4));
  for (float& v : numbers) v *= divisor;
  return numbers;
}

TEST(Predictor, AnswersAsAnEvaluationDoesWhateverTheNumberOfSamples) {
  const auto data = small_data();
  predictor p(small_model(), weights_of(small_model(), *data));
  EXPECT_EQ(p.inputs(), 4U);
  EXPECT_EQ(p.outputs(), 3U);
  const std::vector<float> expected = p.answers(data->test);
  for (const std::size_t count : {std::size_t{1}, std::size_t{5}, data->test.size()}) {
    std::vector<float> found(count * 3);
    p.answers(raw(*data, count, 1), found);
    // Which order of additions is fastest depends on their number where the processor has no AVX.
    EXPECT_THAT(found, Pointwise(FloatNear(1e-6F), std::span(expected).first(count * 3)));
  }
  const data_split many{testing::small_samples(60, 1), testing::small_samples(700, 2), "many", {}};
  std::vector<float> found(700 * 3); // which are more than one program answers
  p.answers(raw(many, 700, 1), found);
  EXPECT_THAT(found, ElementsAreArray(p.answers(many.test)));
}

TEST(Predictor, DividesTheNumbersOfFilesAsTheCardSays) {
  const auto data = small_data();
  saved_weights trained = weights_of(small_model(), *data);
  predictor plain(small_model(), trained);
  std::vector<float> expected(6), found(6);
  plain.answers(raw(*data, 2, 1), expected);
  trained.card->divisors = {256};
  predictor divided(small_model(), trained);
  divided.answers(raw(*data, 2, 256), found);
  EXPECT_THAT(found, ElementsAreArray(expected)) << "powers of two are exact";
  trained.card->divisors = {2, 4, 8, 16};
  predictor by_column(small_model(), trained);
  std::vector<float> numbers = raw(*data, 2, 1);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] *= trained.card->divisors[i % 4];
  by_column.answers(numbers, found);
  EXPECT_THAT(found, ElementsAreArray(expected));
}

TEST(Predictor, BuildsTheModelOfTheCard) {
  const auto data = small_data();
  const std::string layers = R"({"layers":[{"dense":{"units":8,"activation":"tanh"}},{"dense":{}}]})";
  predictor p(weights_of(small_model(), *data, layers));
  predictor own(small_model(), weights_of(small_model(), *data));
  EXPECT_THAT(p.answers(data->test), ElementsAreArray(own.answers(data->test)));
  EXPECT_EQ(p.test(data->test).accuracy, own.test(data->test).accuracy);
}

TEST(Predictor, GivesProbabilitiesThatAddUpToOne) {
  const auto data = small_data();
  predictor p(small_model(), weights_of(small_model(), *data));
  std::vector<float> chances(9), logits(9);
  p.probabilities(raw(*data, 3, 1), chances);
  p.answers(raw(*data, 3, 1), logits);
  for (std::size_t row = 0; row < 3; ++row) {
    const std::span part = std::span(chances).subspan(row * 3, 3);
    EXPECT_NEAR(std::accumulate(part.begin(), part.end(), 0.0), 1, 1e-6);
    EXPECT_NEAR(part[0] / part[1], std::exp(logits[row * 3] - logits[row * 3 + 1]), 1e-4);
  }
  std::vector<float> large{1000, 1000, -1000};
  softmax_rows(large, 3);
  EXPECT_THAT(large, ElementsAre(0.5F, 0.5F, 0)) << "without an overflow";
}

TEST(Predictor, CountsWhichClassIsTakenForWhich) {
  const auto data = small_data();
  predictor p(small_model(), weights_of(small_model(), *data));
  const evaluation e = p.test(data->test);
  ASSERT_EQ(e.confusion.size(), 9U);
  EXPECT_EQ(std::accumulate(e.confusion.begin(), e.confusion.end(), std::uint64_t{0}), data->test.size());
  const std::uint64_t correct = e.confusion[0] + e.confusion[4] + e.confusion[8];
  EXPECT_DOUBLE_EQ(e.accuracy.value(), static_cast<double>(correct) / static_cast<double>(data->test.size()));
  for (std::size_t label = 0; label < 3; ++label)
    EXPECT_EQ(std::accumulate(e.confusion.begin() + static_cast<std::ptrdiff_t>(3 * label),
                              e.confusion.begin() + static_cast<std::ptrdiff_t>(3 * label + 3),
                              std::uint64_t{0}),
              static_cast<std::uint64_t>(
                  std::ranges::count(data->test.labels(), static_cast<std::int32_t>(label))));
}

TEST(Predictor, RefusesWhatItCannotAnswer) {
  const auto data = small_data();
  saved_weights trained = weights_of(small_model(), *data, "softmax");
  predictor p(small_model(), trained);
  std::vector<float> numbers(8), answers(6);
  saved_weights foreign = weights_of(small_model(), *data);
  foreign.card.reset();
  saved_weights own = weights_of(small_model(), *data);
  own.card->model.clear();
  expect_refused({
      {"half a sample", [&] { p.answers(std::span(numbers).first(6), answers); },
       "6 numbers, where a sample has 4"},
      {"no room", [&] { p.answers(numbers, std::span(answers).first(3)); },
       "room for 3 numbers, where the answers have 6"},
      {"no card", [&] { predictor{foreign}; }, "'small.safetensors' tell nothing of their model"},
      {"no model", [&] { predictor{own}; }, "the program has to bring it"},
      {"another model", [&] { predictor{trained}; },
       "'dense1/weights' is 4x8 in the file, and 4x3 in the model"},
  });
  predictor sparse(small_model(), weights_of(small_model(), *testing::sparse_data()));
  EXPECT_EQ(sparse.inputs(), 0U);
  expect_refused({{"sparse rows", [&] { sparse.answers(numbers, answers); }, "does not read plain numbers"}});
}

} // namespace
} // namespace mailgrad
