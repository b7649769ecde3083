#include <mailgrad/optim/clip.hpp>
#include <mailgrad/optim/optimizer.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <ostream>
#include <string>

// Every rule against PyTorch, step by step, on the problem that make_reference.py describes.
namespace mailgrad {
namespace {

constexpr std::array<std::uint64_t, 4> recorded_steps{1, 2, 10, 100};
constexpr std::size_t dense_weights = 17;
constexpr std::int32_t table_rows = 6;
constexpr std::size_t table_width = 3;

struct trajectory {
  const char* name;
  const char* rule;
  double learning_rate;
  double l2;
  double weight_decay; ///< negative: the rule's own
  double clip_norm;
  const char* schedule;
  bool sparse;
  double weights[recorded_steps.size()][18]; ///< a sparse problem has one weight more than a dense one
};

const trajectory trajectories[] = {
#include "trajectories.inc"
};

std::ostream& operator<<(std::ostream& out, const trajectory& t) { return out << t.name; }

optimizer_options options_of(const trajectory& t) {
  optimizer_options options = parse_optimizer(t.rule);
  options.learning_rate = t.learning_rate;
  options.l2 = t.l2;
  if (t.weight_decay >= 0) options.weight_decay = t.weight_decay;
  options.clip_norm = t.clip_norm;
  options.schedule = parse_schedule(t.schedule);
  return options;
}

std::vector<float> first_weights(std::size_t n) {
  std::vector<float> w(n);
  for (std::size_t i = 0; i < n; ++i) w[i] = (static_cast<float>(i) - 8) / 8;
  return w;
}

float gradient_of(std::size_t i, float w, std::uint64_t step) {
  const float slope = 0.5F + static_cast<float>(i % 5) / 4;
  const float centre = (static_cast<float>(i % 3) - 1) / 2;
  const float noise = (static_cast<float>((i * 7 + step * 13) % 11) - 5) / 16;
  return slope * (w - centre) + noise;
}

void dense_step(optimizer& o, std::vector<float>& w, std::uint64_t step, double clip_norm) {
  std::vector<float> g(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) g[i] = gradient_of(i, w[i], step);
  const scaled_gradient one{g.data(), clip_factor(std::sqrt(sum_of_squares(host_stream{}, g)), clip_norm)};
  o.update(host_stream{}, {w, w, {&one, 1}, step});
}

void sparse_step(optimizer& o, std::vector<float>& w, std::uint64_t step) {
  const auto height = static_cast<std::uint64_t>(table_rows);
  const auto a = static_cast<std::int32_t>(step % height);
  const auto b = static_cast<std::int32_t>((2 * step + 1) % height);
  const std::array<std::int32_t, 3> rows{a, b, a};
  std::vector<float> values;
  for (std::size_t j = 0; j < rows.size(); ++j)
    for (std::size_t c = 0; c < table_width; ++c) {
      const std::size_t i = static_cast<std::size_t>(rows[j]) * table_width + c;
      values.push_back(gradient_of(i, w[i], step + j));
    }
  o.update_rows(host_stream{}, {w, table_width, rows, values, 1, step, 0, 0, table_rows});
}

class OptimizerTrajectory : public ::testing::TestWithParam<trajectory> {};

TEST_P(OptimizerTrajectory, IsThatOfPyTorch) {
  const trajectory& t = GetParam();
  const optimizer_options options = options_of(t);
  const std::size_t n = t.sparse ? table_rows * table_width : dense_weights;
  std::vector<float> w = first_weights(n);
  const auto o = make_optimizer(options, n);
  std::size_t next = 0;
  for (std::uint64_t step = 1; step <= recorded_steps.back(); ++step) {
    if (t.sparse)
      sparse_step(*o, w, step);
    else
      dense_step(*o, w, step, options.clip_norm);
    if (step != recorded_steps[next]) continue;
    for (std::size_t i = 0; i < n; ++i)
      EXPECT_NEAR(w[i], t.weights[next][i], 1e-5 * std::abs(t.weights[next][i]) + 1e-6)
          << "step " << step << ", weight " << i;
    ++next;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryRule, OptimizerTrajectory, ::testing::ValuesIn(trajectories),
                         [](const auto& test) { return std::string(test.param.name); });

} // namespace
} // namespace mailgrad
