#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/update.hpp>
#include <mailgrad/tensor/error.hpp>

#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using testing::expect_close;
using testing::gpu_array;
using testing::normal_values;
using testing::shifted_array;

std::size_t states_of_rule(const update_rule& rule) {
  return std::visit([]<class Rule>(const Rule&) { return Rule::states; }, rule);
}

/// One update: how many weights and gradients, and where they lie.
struct update_case {
  update_rule rule = momentum_update{0.1F, 0.9F};
  weight_penalty penalty{};
  std::size_t n = 1003;
  std::size_t gradients = 2;
  std::size_t shift = 0;
  bool apart = false; ///< the new weights do not take the place of the old ones
  float share = 1;
};

/// The new weights, then each state.
using updated_values = std::vector<std::vector<float>>;

float scale_of(std::size_t gradient) { return 1 / static_cast<float>(gradient + 2); }

/// A state is a mean of squares in some rules, so it is not negative.
std::vector<float> state_values(std::size_t n, std::size_t state) {
  std::vector<float> values = normal_values(n, 50 + state);
  for (float& v : values) v = std::abs(v) + 0.1F;
  return values;
}

class GpuUpdate : public testing::gpu_test {
protected:
  updated_values on_host(const update_case& c) {
    updated_values result{normal_values(c.n, 1)};
    const std::vector<float> old = result[0];
    std::vector<std::vector<float>> values;
    std::vector<scaled_gradient> gradients;
    std::vector<float*> state;
    for (std::size_t i = 0; i < c.gradients; ++i) values.push_back(normal_values(c.n, 100 + i));
    for (std::size_t i = 0; i < c.gradients; ++i) gradients.push_back({values[i].data(), scale_of(i)});
    for (std::size_t i = 0; i < states_of_rule(c.rule); ++i) result.push_back(state_values(c.n, i));
    for (std::size_t i = 1; i < result.size(); ++i) state.push_back(result[i].data());
    update(host_stream{}, c.rule, c.penalty, {old, result[0], gradients, c.share}, state);
    return result;
  }

  updated_values on_the_gpu(const update_case& c) {
    const shifted_array<float> old(queue(), normal_values(c.n, 1), c.shift), apart(queue(), c.n, c.shift);
    std::deque<shifted_array<float>> values, states;
    std::vector<scaled_gradient> gradients;
    std::vector<float*> state;
    for (std::size_t i = 0; i < c.gradients; ++i) {
      values.emplace_back(queue(), normal_values(c.n, 100 + i), c.shift);
      gradients.push_back({values.back().data(), scale_of(i)});
    }
    for (std::size_t i = 0; i < states_of_rule(c.rule); ++i) {
      states.emplace_back(queue(), state_values(c.n, i), c.shift);
      state.push_back(states.back().data());
    }
    const shifted_array<float>& updated = c.apart ? apart : old;
    update(gpu(), c.rule, c.penalty, {{old.data(), c.n}, {updated.data(), c.n}, gradients, c.share}, state);
    updated_values result{updated.read()};
    for (const auto& s : states) result.push_back(s.read());
    return result;
  }

  void expect_as_on_host(const update_case& c) {
    const updated_values found = on_the_gpu(c), expected = on_host(c);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) expect_close(found[i], expected[i]);
  }
};

const update_rule every_rule[] = {sgd_update{0.1F},
                                  momentum_update{0.1F, 0.9F},
                                  nesterov_update{0.1F, 0.9F},
                                  adagrad_update{0.1F, 1e-8F},
                                  rmsprop_update{0.1F, 0.9F, 0.1F, 1e-8F},
                                  adam_update{0.1F, 0.9F, 0.1F, 0.999F, 0.001F, 1.5F, 1e-8F},
                                  delayed_nesterov_update{0.1F, 0.9F, 0.25F, 0.8F, 0.25F, 0.5F}};

TEST_F(GpuUpdate, AppliesEachRuleAsTheHostDoes) {
  for (const update_rule& rule : every_rule) {
    SCOPED_TRACE(rule.index());
    expect_as_on_host({.rule = rule});
    expect_as_on_host({.rule = rule, .penalty = {0.1F, 0.01F}});
    expect_as_on_host({.rule = rule, .n = 1002, .gradients = 1, .shift = 1, .apart = true});
  }
}

TEST_F(GpuUpdate, TakesAnyNumberOfWeights) {
  for (const std::size_t n : {1U, 3U, 4U, 5U, 1023U, 1024U, 1025U, 50007U})
    for (const std::size_t shift : {0U, 1U}) {
      SCOPED_TRACE(std::to_string(n) + " weights from " + std::to_string(shift));
      expect_as_on_host({.n = n, .shift = shift});
    }
}

TEST_F(GpuUpdate, SumsAnyNumberOfGradients) {
  for (const std::size_t count : {0U, 1U, 3U, 4U, 5U, 31U, 32U, 33U, 97U}) {
    SCOPED_TRACE(std::to_string(count) + " gradients");
    expect_as_on_host({.n = 333, .gradients = count});
    expect_as_on_host({.rule = sgd_update{0.1F}, .n = 30, .gradients = count, .shift = 1});
  }
}

TEST_F(GpuUpdate, TakesAShareOfTheSum) {
  for (const update_rule& rule : every_rule)
    for (const std::size_t count : {1U, 3U, 33U})
      expect_as_on_host({.rule = rule, .gradients = count, .share = 1.0F / 3});
}

TEST_F(GpuUpdate, LeavesTheOldWeightsWhereTheNewLieApart) {
  const auto old = array(normal_values(100, 1)), updated = unwritten<float>(100),
             g = array(normal_values(100, 2));
  const scaled_gradient one{g.data()};
  update(gpu(), sgd_update{1}, {}, {old.span(), updated.span(), {&one, 1}}, {});
  EXPECT_EQ(old.read(), normal_values(100, 1));
  EXPECT_NE(updated.read(), old.read());
}

TEST_F(GpuUpdate, GivesTheSameBitsInEachRun) {
  const update_case c{.rule = every_rule[5], .n = 5001, .gradients = 40};
  EXPECT_EQ(on_the_gpu(c), on_the_gpu(c));
}

TEST_F(GpuUpdate, IsReplayedWithTheRuleOfTheMoment) {
  constexpr std::size_t n = 1003;
  for (const update_rule& kind : every_rule) {
    SCOPED_TRACE(kind.index());
    const auto weights = array(normal_values(n, 1)), g = array(normal_values(n, 100));
    std::deque<gpu_array<float>> states;
    std::vector<float*> state;
    for (std::size_t i = 0; i < states_of_rule(kind); ++i) {
      states.emplace_back(queue(), state_values(n, i));
      state.push_back(states.back().data());
    }
    const scaled_gradient one{g.data(), scale_of(0)};
    const weight_update work{weights.span(), weights.span(), {&one, 1}};
    const cuda::captured_graph graph(on_gpu().stream,
                                     [&] { cuda::update_as_begun(on_gpu(), kind, work, state); });
    updated_values expected{normal_values(n, 1)};
    std::vector<float*> state_on_host;
    for (std::size_t i = 0; i < states.size(); ++i) expected.push_back(state_values(n, i));
    for (std::size_t i = 1; i < expected.size(); ++i) state_on_host.push_back(expected[i].data());
    const std::vector<float> gradient = normal_values(n, 100);
    const scaled_gradient on_host{gradient.data(), scale_of(0)};
    for (const float rate : {0.5F, 0.25F}) {
      update_rule rule = kind;
      std::visit([&]<class Rule>(Rule& r) { std::memcpy(&r, &rate, sizeof rate); },
                 rule); // each begins with it
      const weight_penalty penalty{rate / 10, rate / 100};
      cuda::begin_update(on_gpu(), rule, penalty);
      graph.launch(on_gpu().stream);
      update(host_stream{}, rule, penalty, {expected[0], expected[0], {&on_host, 1}}, state_on_host);
    }
    expect_close(weights.read(), expected[0]);
    for (std::size_t i = 0; i < states.size(); ++i) expect_close(states[i].read(), expected[i + 1]);
  }
}

TEST_F(GpuUpdate, OfNothingDoesNothing) { update(gpu(), sgd_update{1}, {}, {{}, {}, {}}, {}); }

TEST_F(GpuUpdate, RefusesMoreGradientsThanTheLaneHasRoomFor) {
  const auto w = array(normal_values(1, 1)), g = array(normal_values(1, 2));
  const std::vector<scaled_gradient> many(cuda::gpu_queue::scratch_bytes / 12 + 1, {g.data(), 1});
  EXPECT_THROW(update(gpu(), sgd_update{1}, {}, {w.span(), w.span(), many}, {}), shape_error);
  const std::span few = std::span(many).first(33);
  EXPECT_THROW(cuda::update_as_begun(on_gpu(), sgd_update{1}, {w.span(), w.span(), few}, {}), shape_error);
}

} // namespace
} // namespace mailgrad
