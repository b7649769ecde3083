#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/engine/delays/delay_spec.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace mailgrad {
namespace {

TEST(WorkerFormula, CountsWorkersFromOne) {
  EXPECT_EQ(worker_formula("i").of(0, 8), 1);
  EXPECT_EQ(worker_formula("sqrt(i)").of(3, 8), 2);
  EXPECT_EQ(worker_formula("i^2").of(3, 8), 16);
  EXPECT_EQ(worker_formula("1+4*i").of(2, 8), 13);
  EXPECT_EQ(worker_formula("n-i").of(2, 8), 5);
}

TEST(WorkerFormula, BindsAsArithmeticDoes) {
  EXPECT_EQ(worker_formula("2+3*4^2/6-1").of(0, 1), 9);
  EXPECT_EQ(worker_formula("8-3-2").of(0, 1), 3);
  EXPECT_EQ(worker_formula("-2^2").of(0, 1), -4);
  EXPECT_EQ(worker_formula("2^3^2").of(0, 1), 512);
  EXPECT_EQ(worker_formula("2*-3").of(0, 1), -6);
  EXPECT_DOUBLE_EQ(worker_formula("1+sqrt(i-1)").of(9, 10), 4);
  EXPECT_DOUBLE_EQ(worker_formula("(1+.5)*1e-3").of(0, 1), 0.0015);
}

TEST(WorkerFormula, LetsItsUserJudgeWhatIsNoNumber) {
  EXPECT_TRUE(std::isinf(worker_formula("1/(i-1)").of(0, 1)));
  EXPECT_TRUE(std::isnan(worker_formula("sqrt(i-2)").of(0, 1)));
}

TEST(WorkerFormula, RefusesOtherTexts) {
  const auto of = [](const std::string& text) { return [text] { worker_formula{text}; }; };
  testing::expect_refused({
      {"nothing", of(""), "expected a number, i, n, sqrt() or '(', found its end"},
      {"a name", of("2*x"), "'2*x' is no formula of i, as sqrt(i) or 1+4*i are: expected a number"},
      {"infinity", of("inf"), "expected an operator, found 'n'"},
      {"no number", of("nan"), "expected an operator, found 'a'"},
      {"an open parenthesis", of("(1+i"), "expected ')', found its end"},
      {"a second number", of("1 2"), "expected an operator, found ' '"},
      {"a sign alone", of("i-"), "found its end"},
      {"great depth", of(std::string(100'000, '(')), "expected less depth"},
      {"many signs", of(std::string(100'000, '-')), "expected less depth"},
  });
}

} // namespace
} // namespace mailgrad
