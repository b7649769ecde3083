#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

// Every cure as its paper defines it, in plain loops and double precision, without calls of the tested code.
// The numbers are written out, so that a changed default fails a test.

namespace mailgrad::testing::oracle {

using vec = std::vector<double>;

/// A gradient that a server is about to apply.
struct late_gradient {
  std::size_t worker;
  vec g;          ///< the clipped gradient
  vec now;        ///< the present weights
  vec read;       ///< the weights that the worker was sent
  vec velocity;   ///< of the server's momentum before this gradient; empty if it has none
  double gap = 0; ///< versions since the weights were read
};

/// A cure as functions, which share what it keeps.
struct cure {
  /// The factor on the learning rate of the update.
  std::function<double(double gap)> factor = [](double) { return 1.0; };
  /// The values that are applied in place of the gradient.
  std::function<vec(const late_gradient&)> applied = [](const late_gradient& x) { return x.g; };
  /// The weights that a worker is sent, if the next update has the learning rate `eta` and the server's
  /// momentum this velocity, or none.
  std::function<vec(const vec& w, double eta, const vec& velocity)> sent = [](const vec& w, double,
                                                                              const vec&) { return w; };
  std::function<void(std::size_t worker)> leave = [](std::size_t) {};
};

/// The numbers f(k) in the place of those of a gradient.
template <class F>
vec each(const late_gradient& x, F f) {
  vec out;
  for (std::size_t k = 0; k < x.g.size(); ++k) out.push_back(f(k));
  return out;
}

/// g + lambda g g (w - w_read).
inline double compensated(const late_gradient& x, std::size_t k, double lambda) {
  return x.g[k] + lambda * x.g[k] * x.g[k] * (x.now[k] - x.read[k]);
}

/// DC-ASGD-c.
inline cure dc_asgd(double lambda) {
  return {.applied = [=](const late_gradient& x) {
    return each(x, [&](std::size_t k) { return compensated(x, k, lambda); });
  }};
}

/// DC-ASGD-a: MS = 0.95 MS + 0.05 g g; lambda_t = lambda_0 / sqrt(MS + 1e-7).
inline cure dc_asgd_a(double lambda) {
  return {.applied = [=, mean_square = vec()](const late_gradient& x) mutable {
    mean_square.resize(x.g.size());
    return each(x, [&](std::size_t k) {
      mean_square[k] = 0.95 * mean_square[k] + 0.05 * x.g[k] * x.g[k];
      return compensated(x, k, lambda / std::sqrt(mean_square[k] + 1e-7));
    });
  }};
}

/// g + L (g - the gradient before it), of what is stale.
inline cure delay_feedback(double strength) {
  return {.applied = [=, before = vec()](const late_gradient& x) mutable {
    const vec last = std::exchange(before, x.g);
    if (x.gap == 0 || last.empty()) return x.g;
    return each(x, [&](std::size_t k) { return x.g[k] + strength * (x.g[k] - last[k]); });
  }};
}

/// Gap-Aware: g / (1 + |w - w_read| / C), C = eta_max (sqrt(r) + 1e-8). r is the mean of the squared
/// velocities after all updates so far, weighted by 0.999^age; without momentum, that of all squared
/// gradients so far.
inline cure gap_aware(double rate) {
  const auto mean_square = [](const std::vector<vec>& steps, std::size_t k) {
    double sum = 0, weights = 0, weight = 1;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step, weight *= 0.999) {
      sum += weight * (*step)[k] * (*step)[k];
      weights += weight;
    }
    return sum / weights;
  };
  return {.applied = [=, first = true, steps = std::vector<vec>()](const late_gradient& x) mutable {
    if (x.velocity.empty() || !first) steps.push_back(x.velocity.empty() ? x.g : x.velocity);
    first = false;
    if (steps.empty()) return x.g; // no step has a length yet, and no weight has moved
    return each(x, [&](std::size_t k) {
      const double moved = std::abs(x.now[k] - x.read[k]);
      return x.g[k] / (1 + moved / (rate * (std::sqrt(mean_square(steps, k)) + 1e-8)));
    });
  }};
}

/// DANA-Zero: v_i = gamma v_i + g; w -= eta v_i; sent is w - eta gamma (sum of all v_i).
/// DANA-DC uses g + lambda g g (w - sent_i) in place of g.
/// A worker that has left moves the weights no more, so predictions omit its v_i.
inline cure dana(double gamma, double lambda, std::size_t workers) {
  const auto velocities = std::make_shared<std::vector<vec>>(workers);
  return {.applied =
              [=](const late_gradient& x) {
                vec& v = (*velocities)[x.worker];
                v.resize(x.g.size());
                return v = each(x, [&](std::size_t k) { return gamma * v[k] + compensated(x, k, lambda); });
              },
          .sent =
              [=](const vec& w, double eta, const vec&) {
                vec out = w;
                for (const vec& v : *velocities)
                  for (std::size_t k = 0; k < v.size(); ++k) out[k] -= eta * gamma * v[k];
                return out;
              },
          .leave = [=](std::size_t worker) { (*velocities)[worker].clear(); }};
}

/// DANA-Slim: v_i = gamma v_i + g; w -= eta (gamma v_i + g).
inline cure dana_slim(double gamma, std::size_t workers) {
  return {.applied = [=, velocities = std::vector<vec>(workers)](const late_gradient& x) mutable {
    vec& v = velocities[x.worker];
    v.resize(x.g.size());
    return each(x, [&](std::size_t k) {
      v[k] = gamma * v[k] + x.g[k];
      return gamma * v[k] + x.g[k];
    });
  }};
}

/// EASGD: a worker at x_i sends read - x_i; the centre w moves by alpha (x_i - w).
inline cure easgd(double alpha) {
  return {.applied = [=](const late_gradient& x) {
    return each(x, [&](std::size_t k) { return -alpha * (x.read[k] - x.g[k] - x.now[k]); });
  }};
}

/// CGAD: g times e^(-alpha gap) and a cosine gate that closes at `cutoff`.
inline cure cgad(double alpha, double cutoff) {
  return {.applied = [=](const late_gradient& x) {
    const double gate = x.gap < cutoff ? 0.5 * (1 + std::cos(3.14159265358979 * x.gap / cutoff)) : 0;
    return each(x, [&](std::size_t k) { return x.g[k] * gate * std::exp(-alpha * x.gap); });
  }};
}

/// MLA: a worker is sent what `updates` updates of Nesterov's momentum without gradients make of the weights.
inline cure mla(double momentum, std::size_t updates) {
  return {.sent = [=](const vec& w, double eta, const vec& velocity) {
    vec out = w, v = velocity;
    for (std::size_t t = 0; t < updates; ++t)
      for (std::size_t k = 0; k < v.size(); ++k) {
        v[k] *= momentum;
        out[k] -= eta * momentum * v[k];
      }
    return out;
  }};
}

/// HeLoCo with all weights in one block: with unit vectors a along g and b along the momentum (1 - mu) v, c =
/// a b, and conf = |g| / (|g| + |momentum|), g is kept from c = c_ok on; below 0 it loses beta c |g| b, beta
/// = min(-c conf, 1); between, its direction becomes (1 - s) a + s b, s = min((1 - c) conf, 1).
inline cure heloco(double c_ok, double mu) {
  const auto norm = [](const vec& x) {
    double sum = 0;
    for (const double value : x) sum += value * value;
    return std::sqrt(sum);
  };
  return {.applied = [=](const late_gradient& x) {
    const double of_g = norm(x.g), of_v = norm(x.velocity);
    if (of_g == 0 || of_v == 0) return x.g;
    vec a, b;
    double c = 0;
    for (std::size_t k = 0; k < x.g.size(); ++k) {
      a.push_back(x.g[k] / of_g);
      b.push_back(x.velocity[k] / of_v);
      c += a[k] * b[k];
    }
    if (c >= c_ok) return x.g;
    const double confidence = of_g / (of_g + (1 - mu) * of_v);
    if (c < 0) {
      const double beta = std::min(-c * confidence, 1.0);
      return each(x, [&](std::size_t k) { return x.g[k] - beta * c * of_g * b[k]; });
    }
    const double s = std::min((1 - c) * confidence, 1.0);
    vec out = each(x, [&](std::size_t k) { return (1 - s) * a[k] + s * b[k]; });
    const double length = norm(out);
    for (double& g : out) g *= of_g / length;
    return out;
  }};
}

/// The outer optimiser of the cures that look at an outer momentum.
inline constexpr const char* outer_rule = "nesterov:momentum=0.5";

/// A cure as the user writes it, and the same cure from its paper. `eta_max` is the largest learning rate of
/// a run.
struct cure_pair {
  const char* text;
  std::function<std::unique_ptr<cure>(std::size_t workers, double eta_max)> made;
  const char* momentum_rule = nullptr; ///< the only rule with a momentum that it fits; null: any
};

/// Makes the cure that `make` gives for so many workers and the largest learning rate.
inline auto from(std::function<cure(std::size_t workers, double eta_max)> make) {
  return
      [make](std::size_t workers, double eta_max) { return std::make_unique<cure>(make(workers, eta_max)); };
}

inline auto scaled(std::function<double(double gap, double workers)> f) {
  return from([f](std::size_t workers, double) {
    return cure{.factor = [f, m = static_cast<double>(workers)](double gap) { return f(gap, m); }};
  });
}

template <class... Numbers>
auto fixed(cure (*make)(Numbers...), std::type_identity_t<Numbers>... n) {
  return from([=](std::size_t, double) { return make(n...); });
}

/// Each cure with its defaults, and with other numbers if it takes any.
inline std::vector<cure_pair> every_cure() {
  const auto danas = [](double gamma, double lambda) {
    return from([=](std::size_t workers, double) { return dana(gamma, lambda, workers); });
  };
  const auto slims = [](double gamma) {
    return from([=](std::size_t workers, double) { return dana_slim(gamma, workers); });
  };
  return {
      {"inverse", scaled([](double gap, double) { return gap > 0 ? 1 / gap : 1; })},
      {"dynsgd", scaled([](double gap, double) { return 1 / (gap + 1); })},
      {"polynomial", scaled([](double gap, double) { return 1 / std::sqrt(gap + 1); })},
      {"polynomial:0.8", scaled([](double gap, double) { return std::exp(-0.8 * std::log(gap + 1)); })},
      {"hinge", scaled([](double gap, double) { return gap <= 4 ? 1 : 1 / (10 * (gap - 4) + 1); })},
      {"hinge:3,1.5", scaled([](double gap, double) { return gap <= 1.5 ? 1 : 1 / (3 * (gap - 1.5) + 1); })},
      {"mishchenko", scaled([](double gap, double m) { return gap > m ? m / gap : 1; })},
      {"koloskova", scaled([](double gap, double m) { return gap > m ? 1 / gap : 1; })},
      {"fedbuff", scaled([](double gap, double) { return 1 / std::sqrt(1 + gap); })},
      {"rescaled", scaled([](double gap, double m) { return (gap + 1) / m; })},
      {"dc-asgd", fixed(dc_asgd, 0.04)},
      {"dc-asgd:0.7", fixed(dc_asgd, 0.7)},
      {"dc-asgd-a", fixed(dc_asgd_a, 2.0)},
      {"dc-asgd-a:0.3", fixed(dc_asgd_a, 0.3)},
      {"delay-feedback", fixed(delay_feedback, 1.0)},
      {"delay-feedback:0.4", fixed(delay_feedback, 0.4)},
      {"gap-aware", from([](std::size_t, double eta_max) { return gap_aware(eta_max); })},
      {"dana-zero", danas(0.9, 0.0)},
      {"dana-zero:0.6", danas(0.6, 0.0)},
      {"dana-dc", danas(0.9, 2.0)},
      {"dana-dc:0.7,0.4", danas(0.7, 0.4)},
      {"dana-slim", slims(0.9)},
      {"dana-slim:0.6", slims(0.6)},
      {"easgd", from([](std::size_t m, double) { return easgd(0.9 / static_cast<double>(m)); })},
      {"easgd:0.2", fixed(easgd, 0.2)},
      {"cgad", fixed(cgad, 0.1, 16.0)},
      {"cgad:0.3,5", fixed(cgad, 0.3, 5.0)},
      {"mla", from([](std::size_t workers, double) { return mla(0.5, workers - 1); }), outer_rule},
      {"mla:4", fixed(mla, 0.5, std::size_t{4}), outer_rule},
      {"heloco", fixed(heloco, 0.5, 0.5), outer_rule},
      {"heloco:0.9", fixed(heloco, 0.9, 0.5), outer_rule},
  };
}

} // namespace mailgrad::testing::oracle
