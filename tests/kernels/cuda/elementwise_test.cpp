#include "../../support/card_test.hpp"

#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/tensor/block.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace mailgrad {
namespace {

using enum elementwise_function;

class CardElementwise : public testing::card_test {};

TEST_F(CardElementwise, RunsAChainAsTheHostDoes) {
  elementwise_chain chain; // t = a + c; u = t * exp(t); both wanted
  chain.input_count = 2;
  chain.inputs[1] = elementwise_chain::extent::one;
  chain.step_count = 3;
  chain.steps[0] = {add, 0, 1, 0};
  chain.steps[1] = {exp, 2, 2, -1};
  chain.steps[2] = {multiply, 3, 2, 1};
  for (const std::size_t n : {1U, 1003U, 70001U}) {
    std::vector<float> a(n), t(n), u(n);
    for (std::size_t i = 0; i < n; ++i) a[i] = std::sin(static_cast<float>(i));
    const std::vector<float> c{0.5F};
    const auto on_a = array(a), on_c = array(c), on_t = unwritten<float>(n), on_u = unwritten<float>(n);
    const std::array<const void*, 2> there{on_a.data(), on_c.data()};
    const std::array<void*, 2> to_there{on_t.data(), on_u.data()};
    elementwise(card(), chain, there, to_there, n, nullptr);

    const std::array<const void*, 2> here{a.data(), c.data()};
    const std::array<void*, 2> to_here{t.data(), u.data()};
    block scratch(chain.scratch_bytes());
    elementwise(host_stream{}, chain, here, to_here, n, scratch.data());
    const auto found_t = on_t.read(), found_u = on_u.read();
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(found_t[i], t[i]) << i;
      ASSERT_NEAR(found_u[i], u[i], 1e-5F * (1 + std::abs(u[i]))) << i;
    }
  }
}

} // namespace
} // namespace mailgrad
