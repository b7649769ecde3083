#include <mailgrad/engine/wire/error_feedback.hpp>

#include <mailgrad/tests/engine/wire/wire_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace mailgrad {
namespace {

using testing::drawn_numbers;
using testing::expect_refused;
using testing::lossy_formats;

using floats = std::vector<float>;
using sums = std::vector<double>;

floats decoded(const wire_format& f, const wire_message& message, std::size_t n) {
  floats to(n);
  decode_numbers(f, *message, to);
  return to;
}

void add(sums& to, std::span<const float> x) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += static_cast<double>(x[i]);
}

/// Multiples of 2^-14 below 16: sums of hundreds of them are exact in float32.
floats drawn_multiples(std::size_t n, std::mt19937_64& rng) {
  floats x(n);
  for (float& v : x) v = (static_cast<float>(rng() % (1U << 19U)) - 0x1p18F) * 0x1p-14F;
  return x;
}

/// What a worker and its shard have after many steps with up to four messages in flight, of which the shard
/// discards one in three.
struct balance {
  sums made, applied;
  floats residual;
};

balance after_many_steps(const wire_format& f, std::size_t n, std::mt19937_64& rng,
                         floats (*draw)(std::size_t, std::mt19937_64&)) {
  error_feedback feedback(f, n);
  balance a{sums(n), sums(n), {}};
  std::vector<std::pair<step_number, wire_message>> in_flight;
  const auto settle = [&] {
    const std::size_t which = rng() % in_flight.size();
    const auto [step, message] = in_flight[which];
    in_flight.erase(in_flight.begin() + static_cast<std::ptrdiff_t>(which));
    if (rng() % 3 == 0) return feedback.give_back(step);
    add(a.applied, decoded(f, message, n));
    feedback.applied(step);
  };
  for (step_number step{1}; step.value <= 200; ++step) {
    const floats g = draw(n, rng);
    add(a.made, g);
    in_flight.emplace_back(step, feedback.send(step, g));
    while (in_flight.size() > rng() % 5) settle();
    EXPECT_EQ(feedback.in_flight(), in_flight.size());
  }
  while (!in_flight.empty()) settle();
  a.residual.assign(feedback.residual().begin(), feedback.residual().end());
  return a;
}

TEST(ErrorFeedback, LosesNothingWhateverIsDiscarded) {
  std::mt19937_64 rng(1);
  for (const std::string_view format : lossy_formats)
    for (const std::size_t n : {1U, 16U, 131U}) {
      const balance a = after_many_steps(parse_wire_format(format), n, rng, drawn_numbers);
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_NEAR(a.made[i], a.applied[i] + static_cast<double>(a.residual[i]), 2e-3)
            << format << ", number " << i;
    }
}

TEST(ErrorFeedback, LosesExactlyNothingWhereSumsAreExact) {
  std::mt19937_64 rng(2);
  for (const char* format : {"float16", "bfloat16", "top-k:0.1", "top-k:1"}) {
    const balance a = after_many_steps(parse_wire_format(format), 131, rng, drawn_multiples);
    for (std::size_t i = 0; i < a.made.size(); ++i)
      ASSERT_EQ(a.made[i], a.applied[i] + static_cast<double>(a.residual[i])) << format << ", number " << i;
  }
}

TEST(ErrorFeedback, SendsLaterWhatItKept) {
  error_feedback feedback(parse_wire_format("top-k:0.5"), 2);
  const wire_format f = parse_wire_format("top-k:0.5");
  EXPECT_EQ(decoded(f, feedback.send({1}, floats{3, 2}), 2), (floats{3, 0}));
  EXPECT_EQ(decoded(f, feedback.send({2}, floats{3, 2}), 2), (floats{0, 4}));
  EXPECT_EQ(decoded(f, feedback.send({3}, floats{0, 0}), 2), (floats{3, 0}));
}

TEST(ErrorFeedback, GetsBackTheMessageOfItsStepAndNoOther) {
  const wire_format f = parse_wire_format("top-k:0.5");
  error_feedback feedback(f, 2);
  feedback.send({1}, floats{3, 2});  // sends 3, 0
  feedback.send({2}, floats{1, 7});  // sends 0, 9
  feedback.send({5}, floats{-8, 0}); // sends -7, 0
  feedback.applied({1});
  feedback.give_back({2});
  EXPECT_EQ(floats(feedback.residual().begin(), feedback.residual().end()), (floats{0, 9}));
  feedback.give_back({5});
  EXPECT_EQ(floats(feedback.residual().begin(), feedback.residual().end()), (floats{-7, 9}));
  EXPECT_EQ(feedback.in_flight(), 0U);
}

TEST(ErrorFeedback, IsNotHarmedByWhatIsNotFinite) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::string_view format : lossy_formats) {
    const wire_format f = parse_wire_format(format);
    error_feedback feedback(f, 3);
    feedback.send({1}, floats{1.00001F, 0.3F, -0.7F});
    feedback.applied({1});
    const floats before(feedback.residual().begin(), feedback.residual().end());
    if (feedback.send({2}, floats{nan, nan, nan})) feedback.give_back({2});
    EXPECT_EQ(floats(feedback.residual().begin(), feedback.residual().end()), before) << format;
    EXPECT_EQ(feedback.in_flight(), 0U) << format;
  }
}

TEST(ErrorFeedback, OfFloat32KeepsNothing) {
  error_feedback feedback(parse_wire_format("float32"), 2);
  const wire_message message = feedback.send({1}, floats{3, 2});
  EXPECT_EQ(decoded(parse_wire_format("float32"), message, 2), (floats{3, 2}));
  feedback.give_back({1});
  EXPECT_TRUE(feedback.residual().empty());
}

TEST(ErrorFeedback, UsesTheMemoryOfAMessageAgainWhenNobodyHoldsIt) {
  error_feedback feedback(parse_wire_format("float16"), 2);
  wire_message first = feedback.send({1}, floats{3, 2});
  const void* memory = first->data();
  feedback.applied({1});
  const wire_message second = feedback.send({2}, floats{3, 2});
  EXPECT_NE(second->data(), memory) << "the sender still holds the first";
  first.reset();
  EXPECT_EQ(feedback.send({3}, floats{3, 2})->data(), memory);
}

TEST(ErrorFeedback, RefusesWhatItCannotMean) {
  error_feedback feedback(parse_wire_format("float16"), 2);
  feedback.send({1}, floats{1, 2});
  feedback.send({2}, floats{1, 2});
  feedback.applied({2});
  expect_refused({
      {"another length", [&] { feedback.send({3}, floats{1}); }, "error_feedback: 1 against 2"},
      {"a step in flight",
       [&] {
         feedback.send({1}, floats{1, 2});
       },
       "step 1 is in flight already"},
      {"a step settled before", [&] { feedback.applied({2}); }, "no gradient of step 2 is in flight"},
      {"a step never sent", [&] { feedback.give_back({9}); }, "no gradient of step 9 is in flight"},
  });
  EXPECT_EQ(feedback.in_flight(), 1U);
}

} // namespace
} // namespace mailgrad
