#include <mailgrad/engine/wire/error_feedback.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

// Formats with error feedback train as well as float32 does, and the coarse ones do not without it.

namespace mailgrad {
namespace {

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
