#include <mailgrad/engine/wire/error_feedback.hpp>
#include <mailgrad/tests/engine/wire/wire_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

// Formats with error feedback train as well as float32 does, and the coarse ones do not without it.

namespace mailgrad {
namespace {

using testing::drawn_numbers;
using testing::drawn_whole_numbers;
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
  const wire_format f = parse_wire_format("top-k:0.5"), exact = parse_wire_format("float32");
  error_feedback feedback(f, 2), of_float32(exact, 2);
  EXPECT_EQ(decoded(f, feedback.send({1}, floats{3, 2}), 2), (floats{3, 0}));
  EXPECT_EQ(decoded(f, feedback.send({2}, floats{3, 2}), 2), (floats{0, 4}));
  EXPECT_EQ(decoded(f, feedback.send({3}, floats{0, 0}), 2), (floats{3, 0}));
  EXPECT_EQ(decoded(exact, of_float32.send({1}, floats{3, 2}), 2), (floats{3, 2}));
  of_float32.give_back({1});
  EXPECT_TRUE(of_float32.residual().empty()) << "float32 keeps nothing";
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
  const auto send = [&feedback](std::uint64_t step, std::size_t numbers) {
    return [&feedback, step, numbers] { feedback.send({step}, floats(numbers, 1)); };
  };
  for (const std::uint64_t step : {1, 2}) send(step, 2)();
  feedback.applied({2});
  expect_refused({
      {"another length", send(3, 1), "error_feedback: 1 against 2"},
      {"a step in flight", send(1, 2), "step 1 is in flight already"},
      {"a step settled before", [&] { feedback.applied({2}); }, "no gradient of step 2 is in flight"},
      {"a step never sent", [&] { feedback.give_back({9}); }, "no gradient of step 9 is in flight"},
  });
  EXPECT_EQ(feedback.in_flight(), 1U);
}

using floats = std::vector<float>;
using rows = std::vector<std::int32_t>;

constexpr table_extent table{10, 3};

void add(std::vector<double>& to, const rows& listed, std::span<const float> values) {
  for (std::size_t i = 0; i < listed.size(); ++i)
    for (std::size_t c = 0; c < table.width; ++c)
      to[static_cast<std::size_t>(listed[i]) * table.width + c] +=
          static_cast<double>(values[table.width * i + c]);
}

TEST(RowFeedback, LosesNothingWhateverIsDiscarded) {
  std::mt19937_64 rng(1);
  for (const std::string_view format : lossy_formats) {
    const wire_format f = parse_wire_format(format);
    row_feedback feedback(f, table);
    std::vector<double> made(30), applied(30);
    std::vector<std::pair<step_number, wire_message>> in_flight;
    for (step_number step{1}; step.value <= 300; ++step) {
      rows listed(rng() % 7);
      for (std::int32_t& row : listed) row = static_cast<std::int32_t>(rng() % table.rows);
      const floats values = drawn_whole_numbers(3 * listed.size(), rng);
      add(made, listed, values);
      in_flight.emplace_back(step, feedback.send(step, {0, 3, listed, values}));
      if (in_flight.size() < 3 && step.value < 300) continue;
      for (const auto& [sent, message] : in_flight) {
        if (rng() % 3 == 0) {
          feedback.give_back(sent);
          continue;
        }
        decoded_rows read;
        decode_rows(f, *message, table, read);
        add(applied, read.rows, read.values);
        feedback.applied(sent);
      }
      in_flight.clear();
    }
    for (std::size_t i = 0; i < made.size(); ++i)
      ASSERT_NEAR(made[i], applied[i] + static_cast<double>(feedback.residual()[i]), 5e-3)
          << format << ", " << i;
  }
}

TEST(RowFeedback, KeepsTheRestOfARowUntilItComesAgain) {
  row_feedback feedback(parse_wire_format("top-k:0.3"), table); // one number of a row
  feedback.send({1}, {0, 3, rows{4}, floats{5, 2, 1}});
  feedback.send({2}, {0, 3, rows{6}, floats{1, 1, 1}});
  const wire_message third = feedback.send({3}, {0, 3, rows{4}, floats{0, 2, 1}});
  decoded_rows read;
  decode_rows(parse_wire_format("top-k:0.3"), *third, table, read);
  EXPECT_EQ(read.rows, rows{4});
  EXPECT_EQ(read.values, (floats{0, 4, 0}));
}

TEST(RowFeedback, SendsNothingThatIsNotFiniteAndRefusesWhatItCannotMean) {
  row_feedback feedback(parse_wire_format("int8"), table);
  EXPECT_FALSE(feedback.send({1}, {0, 3, rows{4}, floats{5, std::numeric_limits<float>::infinity(), 1}}));
  EXPECT_EQ(feedback.in_flight(), 0U);
  const auto send = [&feedback](std::uint64_t step, const rows& listed) {
    return [&feedback, step, listed] { feedback.send({step}, {0, 3, listed, floats(3)}); };
  };
  send(1, {4})();
  expect_refused({
      {"a row behind the table", send(2, {10}), "row 10 of a table of 10"},
      {"too few values", send(2, {1, 2}), "2 rows of 3 with 3 values"},
      {"a step in flight", send(1, {1}), "step 1 is in flight already"},
      {"a step never sent", [&] { feedback.give_back({9}); }, "no gradient of step 9 is in flight"},
  });
}

using floats = std::vector<float>;

constexpr std::size_t dealt_workers = 4, samples = 32, features = 24;

/// Linear regression whose samples are dealt to workers by where they lie, so that the workers' gradients do
/// not vanish where their mean does.
struct regression {
  std::vector<std::vector<floats>> x{dealt_workers};
  std::vector<floats> y{dealt_workers};

  regression() {
    std::mt19937_64 rng(7);
    std::normal_distribution<float> normal(0, 1);
    floats truth(features);
    for (float& w : truth) w = normal(rng);
    for (std::size_t k = 0; k < dealt_workers; ++k)
      for (std::size_t s = 0; s < samples; ++s) {
        floats row(features);
        float target = static_cast<float>(k) - 1.5F + 0.3F * normal(rng);
        for (std::size_t i = 0; i < features; ++i) {
          row[i] = normal(rng) * (i % dealt_workers == k ? 2.0F : 0.5F);
          target += truth[i] * row[i];
        }
        x[k].push_back(row);
        y[k].push_back(target);
      }
  }

  float error(std::size_t k, std::size_t s, const floats& w) const {
    float e = -y[k][s];
    for (std::size_t i = 0; i < features; ++i) e += w[i] * x[k][s][i];
    return e;
  }
  floats gradient(std::size_t k, const floats& w) const {
    floats g(features);
    for (std::size_t s = 0; s < samples; ++s) {
      const float e = error(k, s, w) / samples;
      for (std::size_t i = 0; i < features; ++i) g[i] += e * x[k][s][i];
    }
    return g;
  }
  double loss(const floats& w) const {
    double sum = 0;
    for (std::size_t k = 0; k < dealt_workers; ++k)
      for (std::size_t s = 0; s < samples; ++s) sum += std::pow(static_cast<double>(error(k, s, w)), 2);
    return sum / (2 * dealt_workers * samples);
  }
};

/// Gradient descent on the mean of what the workers' messages say.
double trained_loss(std::string_view format, bool with_feedback) {
  const regression problem;
  const wire_format f = parse_wire_format(format);
  std::vector<error_feedback> feedbacks;
  for (std::size_t k = 0; k < dealt_workers; ++k) feedbacks.emplace_back(f, features);
  floats w(features), decoded(features);
  for (step_number step{1}; step.value <= 3000; ++step) {
    floats mean(features);
    for (std::size_t k = 0; k < dealt_workers; ++k) {
      const floats g = problem.gradient(k, w);
      std::vector<std::byte> alone(encoded_bytes(f, features));
      if (with_feedback) {
        decode_numbers(f, *feedbacks[k].send(step, g), decoded);
        feedbacks[k].applied(step);
      } else {
        EXPECT_TRUE(encode_numbers(f, g, {}, alone));
        decode_numbers(f, alone, decoded);
      }
      for (std::size_t i = 0; i < features; ++i) mean[i] += decoded[i] / dealt_workers;
    }
    for (std::size_t i = 0; i < features; ++i) w[i] -= 0.01F * mean[i];
  }
  return problem.loss(w);
}

TEST(WireConvergence, OfEveryFormatWithErrorFeedbackIsThatOfFloat32) {
  const double least = trained_loss("float32", true);
  for (const char* format :
       {"float16", "bfloat16", "int8:block=16", "1-bit:block=16", "top-k:0.25", "top-k:0.05"})
    EXPECT_LT(trained_loss(format, true), 1.001 * least) << format;
}

TEST(WireConvergence, OfCoarseFormatsWithoutItIsWorse) {
  const double least = trained_loss("float32", true);
  EXPECT_GT(trained_loss("1-bit:block=16", false), 1.5 * least);
  EXPECT_GT(trained_loss("top-k:0.05", false), 1.05 * least);
}

} // namespace
} // namespace mailgrad
