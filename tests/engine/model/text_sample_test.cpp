#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace mailgrad {
namespace {

using testing::next_from_table;
using namespace ::testing;

const std::vector<std::string> symbols{"\n", "a", "b", "\xC3\xA4"};
const model_request request{
    .sample_dims = {3}, .features = feature_kind::tokens, .classes = symbols.size(), .batch = 7};

/// Row i: logits of what follows symbol i.
std::string written(const std::vector<float>& table, const text_sample_options& options) {
  const parameter_layout layout = lay_out(next_from_table, request, 1);
  std::vector<float> parameters(layout.size());
  std::ranges::copy(table, parameters.begin() + static_cast<std::ptrdiff_t>(layout.variables()[0].offset));
  return write_text(next_from_table, request, layout, parameters, symbols, options);
}

/// A line break, "a", "b", "ä" in turns.
const std::vector<float> in_turns{0, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0};

TEST(TextSample, WritesTheLikeliestSymbolsAtTemperatureZero) {
  EXPECT_EQ(written(in_turns, {.length = 6, .temperature = 0}), "ab\xC3\xA4\nab");
  EXPECT_EQ(written(in_turns, {.length = 0, .temperature = 0}), "");
}

TEST(TextSample, DrawsSymbolsAsOftenAsTheModelExpectsThem) {
  const float three = std::log(3.0F); // "a" three times as often as "b", the others never
  constexpr float never = -std::numeric_limits<float>::infinity();
  std::vector<float> table;
  for (int row = 0; row < 4; ++row) table.insert(table.end(), {never, three, 0, never});
  const auto share_of_a = [&](double temperature) {
    const std::string text = written(table, {.length = 2000, .temperature = temperature, .seed = 5});
    EXPECT_EQ(text.find_first_not_of("ab"), text.npos);
    return static_cast<double>(std::ranges::count(text, 'a')) / 2000;
  };
  EXPECT_NEAR(share_of_a(1), 0.75, 0.04);
  EXPECT_NEAR(share_of_a(0.5), 0.9, 0.04);
  EXPECT_NEAR(share_of_a(1e6), 0.5, 0.04);
  const auto text = [](std::uint64_t seed) {
    return written(in_turns, {.length = 50, .temperature = 1, .seed = seed});
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(TextSample, ReadsAsMuchAsTheWindowHolds) {
  const model_function gpt = *built_in_model("gpt:layers=1,width=8,heads=2");
  const parameter_layout layout = lay_out(gpt, request, 1);
  std::vector<float> parameters(layout.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] = std::sin(static_cast<float>(i * i));
  const auto text = [&](std::size_t length) {
    return write_text(gpt, request, layout, parameters, symbols, {.length = length, .temperature = 2});
  };
  EXPECT_TRUE(text(40).starts_with(text(2))) << "before the window is full, and long after";
}

TEST(TextSample, RefusesWhatIsNoTemperatureOrLacksASymbol) {
  for (const double t :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_THAT([&] { written(in_turns, {.length = 1, .temperature = t}); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("temperature: ")));
  const parameter_layout layout = lay_out(next_from_table, request, 1);
  const std::vector<float> parameters(layout.size());
  EXPECT_THAT(
      [&] { write_text(next_from_table, request, layout, parameters, std::span(symbols).first(3), {}); },
      ThrowsMessage<std::invalid_argument>(HasSubstr("each of 4 classes, not 3")));
}

} // namespace
} // namespace mailgrad
