#include "../../support/card_test.hpp"

#include <mailgrad/kernels/update.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace mailgrad {
namespace {

class CardUpdate : public testing::card_test {};

std::vector<float> waves(std::size_t n, float speed) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = std::sin(speed * static_cast<float>(i));
  return values;
}

TEST_F(CardUpdate, GivesWhatTheHostGives) {
  const adam_update rule{0.01F, 0.9F, 0.999F, 0.1F, 0.001F, 1, 1e-8F};
  for (const std::size_t n : {1U, 31U, 1003U, 100003U}) {
    std::vector<float> w = waves(n, 0.7F), m = waves(n, 0.2F), v(n, 0.5F);
    const std::vector<float> a = waves(n, 1.3F), b = waves(n, 2.9F);
    const auto on_w = array(w), on_m = array(m), on_v = array(v), on_a = array(a), on_b = array(b);
    const scaled_gradient there[] = {{on_a.data(), 0.5F}, {on_b.data(), 0.25F}};
    float* const there_state[] = {on_m.data(), on_v.data()};
    update(card(), rule, {}, {on_w.span(), on_w.span(), there}, there_state);

    const scaled_gradient here[] = {{a.data(), 0.5F}, {b.data(), 0.25F}};
    float* const here_state[] = {m.data(), v.data()};
    update(host_stream{}, rule, {}, {w, w, here}, here_state);
    const auto found = on_w.read(), found_v = on_v.read();
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_NEAR(found[i], w[i], 1e-5F * (1 + std::abs(w[i]))) << i << " of " << n;
      ASSERT_NEAR(found_v[i], v[i], 1e-5F * (1 + std::abs(v[i]))) << i << " of " << n;
    }
  }
}

} // namespace
} // namespace mailgrad
