#pragma once

#include <mailgrad/engine/delays/delay_law.hpp>
#include <mailgrad/engine/delays/step_draws.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace mailgrad {

/// What all laws need that draw: whose steps they are.
struct drawn_worker {
  std::uint64_t seed = 1;
  std::uint32_t worker = 0;
};

/// A law whose steps are drawn independently of each other: base + scale * draw.
/// `Shape` maps the random numbers of a step to a draw.
template <class Shape>
class drawn_delay final : public delay_law {
public:
  drawn_delay(drawn_worker who, double base, double scale, Shape shape)
      : who_(who), base_(base), scale_(scale), shape_(shape) {}

  double seconds(std::uint64_t step, double) override {
    step_draws draws(who_.seed, who_.worker, step);
    return std::min(base_ + scale_ * shape_(draws), longest);
  }

private:
  drawn_worker who_;
  double base_;
  double scale_;
  Shape shape_;
};

struct no_draw {
  double operator()(step_draws&) const { return 0; }
};

/// Mean 1.
struct exponential_draw {
  double operator()(step_draws& d) const { return d.exponential(); }
};

/// The least is 1, and P(X > x) = x^-alpha.
struct pareto_draw {
  double alpha;
  double operator()(step_draws& d) const { return std::pow(d.uniform(), -1 / alpha); }
};

/// Mean 1, and `cv` the standard deviation.
struct gamma_draw {
  double cv;
  double operator()(step_draws& d) const { return d.gamma(1 / (cv * cv)) * cv * cv; }
};

/// Mean 1, and `sigma` the standard deviation of the logarithm.
struct lognormal_draw {
  double sigma;
  double operator()(step_draws& d) const { return std::exp(sigma * d.normal() - sigma * sigma / 2); }
};

/// |N(0, 1)|.
struct half_normal_draw {
  double operator()(step_draws& d) const { return std::abs(d.normal()); }
};

/// `factor` with probability p, else 1.
struct slowdown_draw {
  double p;
  double factor;
  double operator()(step_draws& d) const { return d.uniform() < p ? factor : 1; }
};

} // namespace mailgrad
