#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operation.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/program/gradient_check.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <array>

namespace mailgrad {
namespace {

using testing::ElementsAre, testing::IsEmpty;

class tripled_executable : public executable {
public:
  explicit tripled_executable(std::size_t size) : size_(size) {}
  void run(const stream&, const call& c) override {
    for (std::size_t i = 0; i < size_; ++i) c.out()[i] = 3 * c.in(0)[i];
  }

private:
  std::size_t size_;
};

/// 3x, with a gradient that says `slope`.
class tripled : public operation {
public:
  explicit tripled(float slope) : slope_(slope) {}
  std::string_view name() const noexcept override { return "tripled"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override { return {inputs[0]}; }
  std::vector<adjoint> gradient(std::span<const value>, std::span<const value>,
                                std::span<const std::optional<value>> dy) const override {
    return {*dy[0] * slope_};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<tripled_executable>(inputs[0].dims.size());
  }

private:
  float slope_;
};

value thrice(const value& x, float slope) {
  return x.owner().apply_one(std::make_shared<tripled>(slope), {x}, std::source_location::current());
}

TEST(GradientCheck, FindsNothingWrongWithARightGradient) {
  graph g;
  const value x = g.variable("x", {2, 2}, initialiser::uniform(-1, 1));
  EXPECT_THAT(check_gradients(thrice(square(x), 3), std::array{x}), IsEmpty());
}

TEST(GradientCheck, NamesEachCoordinateThatIsWrong) {
  graph g;
  const value x = g.variable("x", {2}, initialiser::constant(1));
  const value y = g.variable("y", {2}, initialiser::constant(1));
  const auto wrong = check_gradients(thrice(x, 2) + y, std::array{x, y});
  ASSERT_EQ(wrong.size(), 2U) << "that of y is right";
  EXPECT_EQ(wrong[1].source, "x");
  EXPECT_EQ(wrong[1].element, 1U);
  EXPECT_NEAR(wrong[1].found / wrong[1].expected, 2.0 / 3, 1e-3);
  EXPECT_THAT(to_string({"x", 3, 0.5, 0.25}),
              "gradient with respect to 'x' [3] is 0.500000, where the difference quotient is 0.250000");
}

TEST(GradientCheck, TakesAGradientThatIsNoNumberForAWrongOne) {
  graph g;
  const value x = g.variable("x", {1}, initialiser::constant(-1));
  EXPECT_EQ(check_gradients(sqrt(x), std::array{x}).size(), 1U);
}

TEST(TrialRun, RunsWithWhatItIsFed) {
  graph g;
  const value x = g.input("x", {2}), w = g.variable("w", {2}, initialiser::constant(2));
  tensor two({2});
  two.values()[1] = 5;
  EXPECT_THAT(run_once(x * w, {{x, two}}), ElementsAre(0, 10));
}

TEST(TrialRun, RefusesFeedsThatDoNotFit) {
  graph g;
  const value x = g.input("x", {2});
  testing::expect_refused({
      {"shape",
       [&] {
         run_once(square(x), {{x, tensor({3})}});
       },
       "'x' is float32 2, and is fed with float32 3"},
      {"type",
       [&] {
         run_once(square(x), {{x, tensor({2}, dtype::int32)}});
       },
       "and is fed with int32 2"},
      {"nothing", [&] { run_once(square(x)); }, "input 'x' is not fed"},
  });
}

} // namespace
} // namespace mailgrad
