#include <mailgrad/tests/data/allocations.hpp>

#include <mailgrad/optim/optimizer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

// Every rule of whole variables against the formula of its paper, step by step, on the problem that
// make_matrix_reference.py describes.

namespace mailgrad {
namespace {

constexpr std::array<std::uint64_t, 3> matrix_steps{1, 3, 20};
constexpr std::size_t matrix_weights = 34;

struct matrix_trajectory {
  const char* rule;
  double learning_rate;
  double weight_decay;
  double l2;
  const char* schedule;
  double weights[matrix_steps.size()][matrix_weights];
};

const matrix_trajectory matrix_trajectories[] = {
#include "matrix_trajectories.inc"
};

std::ostream& operator<<(std::ostream& out, const matrix_trajectory& t) { return out << t.rule; }

optimizer_options matrix_options_of(const matrix_trajectory& t) {
  optimizer_options o = parse_optimizer(t.rule);
  o.learning_rate = t.learning_rate;
  o.weight_decay = t.weight_decay;
  o.l2 = t.l2;
  o.schedule = parse_schedule(t.schedule);
  return o;
}

/// The variables of the problem, each on a cache line as in a shard.
std::vector<shard_variable> problem_variables() {
  return {{"wide", {2, 3}, 0},
          {"tall", {4, 3}, 16},
          {"filters", {1, 2, 2, 3}, 32},
          {"bias", {3}, 48},
          {"scale", {}, 64}};
}

constexpr std::size_t shard_floats = 80;

std::vector<float> first_matrices() {
  std::vector<float> w(shard_floats);
  const auto all = problem_variables();
  for (std::size_t v = 0; v < all.size(); ++v)
    for (std::size_t i = 0; i < all[v].dims.size(); ++i)
      w[all[v].offset + i] = (static_cast<float>((i * 5 + v * 3) % 17) - 8) / 8;
  return w;
}

std::vector<float> matrix_gradient(const std::vector<float>& w, std::uint64_t step) {
  std::vector<float> g(w.size());
  const auto all = problem_variables();
  for (std::size_t v = 0; v < all.size(); ++v)
    for (std::size_t k = 0; k < all[v].dims.size(); ++k) {
      const std::size_t i = k + 7 * v;
      const float slope = 0.5F + static_cast<float>(i % 5) / 4;
      const float centre = (static_cast<float>(i % 3) - 1) / 2;
      const float noise = (static_cast<float>((i * 7 + step * 13) % 11) - 5) / 16;
      g[all[v].offset + k] = slope * (w[all[v].offset + k] - centre) + noise;
    }
  return g;
}

std::unique_ptr<optimizer> made(const optimizer_options& o) {
  host_queue here;
  return make_optimizer(o, shard_floats, here, problem_variables());
}

std::vector<float> weights_of_variables(const std::vector<float>& w) {
  std::vector<float> found;
  for (const shard_variable& v : problem_variables())
    for (std::size_t i = 0; i < v.dims.size(); ++i) found.push_back(w[v.offset + i]);
  return found;
}

class MatrixTrajectory : public ::testing::TestWithParam<matrix_trajectory> {};

TEST_P(MatrixTrajectory, IsThatOfThePaper) {
  const auto o = made(matrix_options_of(GetParam()));
  std::vector<float> w = first_matrices();
  std::size_t next = 0;
  for (std::uint64_t step = 1; step <= matrix_steps.back(); ++step) {
    const std::vector<float> g = matrix_gradient(w, step);
    const scaled_gradient halves[] = {{g.data(), 0.25F}, {g.data(), 0.75F}};
    o->update(host_stream{}, {w, w, halves, step});
    if (step != matrix_steps[next]) continue;
    const std::vector<float> found = weights_of_variables(w);
    for (std::size_t i = 0; i < matrix_weights; ++i)
      EXPECT_NEAR(static_cast<double>(found[i]), GetParam().weights[next][i], 2e-4)
          << "step " << step << ", weight " << i;
    ++next;
  }
}

/// Trains in ranges of whole variables, from memory to memory or in place.
std::vector<float> trained_matrices(const optimizer_options& options, bool in_place, std::size_t cut) {
  const auto o = made(options);
  std::vector<float> w = first_matrices();
  std::vector<float> spare(shard_floats, 7);
  for (std::uint64_t step = 1; step <= 9; ++step) {
    const std::vector<float> g = matrix_gradient(w, step);
    std::vector<float>& to = in_place ? w : spare;
    for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, cut}, {cut, shard_floats}}) {
      const scaled_gradient one{g.data() + begin};
      o->update(host_stream{}, {std::span(w).subspan(begin, end - begin),
                                std::span(to).subspan(begin, end - begin),
                                {&one, 1},
                                step,
                                begin});
    }
    if (!in_place) std::swap(w, spare);
  }
  return weights_of_variables(w);
}

TEST_P(MatrixTrajectory, IsTheSameBitsInPlaceAndApartAndInRanges) {
  const optimizer_options o = matrix_options_of(GetParam());
  const std::vector<float> expected = trained_matrices(o, true, shard_floats);
  EXPECT_EQ(trained_matrices(o, false, shard_floats), expected);
  EXPECT_EQ(trained_matrices(o, true, 32), expected);
}

TEST_P(MatrixTrajectory, TakesNoMemory) {
  const auto o = made(matrix_options_of(GetParam()));
  std::vector<float> w = first_matrices();
  const std::vector<float> g = matrix_gradient(w, 1);
  const scaled_gradient one{g.data(), 0.5F};
  o->update(host_stream{}, {w, w, {&one, 1}, 1});
  const std::size_t before = allocations();
  for (std::uint64_t step = 2; step <= 12; ++step) o->update(host_stream{}, {w, w, {&one, 1}, step});
  EXPECT_EQ(allocations(), before);
}

TEST_P(MatrixTrajectory, ScalesItsStepByTheRateOfACure) {
  const optimizer_options options = matrix_options_of(GetParam());
  const auto move = [&](double rate) {
    const auto o = made(options);
    std::vector<float> w = first_matrices();
    const std::vector<float> g = matrix_gradient(w, 1);
    const scaled_gradient one{g.data()};
    o->update(host_stream{}, {w, w, {&one, 1}, 1, 0, rate});
    const std::vector<float> from = first_matrices();
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= from[i];
    return w;
  };
  const std::vector<float> whole = move(1), half = move(0.5), none = move(0);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(half[i], whole[i] / 2, 1e-5) << i;
    EXPECT_EQ(none[i], 0) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryRule, MatrixTrajectory, ::testing::ValuesIn(matrix_trajectories),
                         [](const auto& test) {
                           std::string name = std::to_string(test.index) + test.param.rule;
                           std::erase_if(name, [](char c) { return !std::isalnum(c); });
                           return name;
                         });

} // namespace
} // namespace mailgrad
