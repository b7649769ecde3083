#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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

class cure {
public:
  virtual ~cure() = default;
  /// The factor on the learning rate of the update.
  virtual double factor(double) const { return 1; }
  /// The values that are applied in place of the gradient.
  virtual vec applied(const late_gradient& x) { return x.g; }
  /// The weights that a worker is sent, if the next update has the learning rate `eta` and the server's
  /// momentum this velocity, or none.
  virtual vec sent(const vec& w, double, const vec&) const { return w; }
  virtual void leave(std::size_t) {}
};

/// A cure that is a function of the gap alone.
class scale final : public cure {
public:
  explicit scale(std::function<double(double)> f) : f_(std::move(f)) {}
  double factor(double gap) const override { return f_(gap); }

private:
  std::function<double(double)> f_;
};

/// DC-ASGD-c: g + lambda g g (w - w_read).
class dc_asgd final : public cure {
public:
  explicit dc_asgd(double lambda) : lambda_(lambda) {}
  vec applied(const late_gradient& x) override {
    vec out;
    for (std::size_t k = 0; k < x.g.size(); ++k)
      out.push_back(x.g[k] + lambda_ * x.g[k] * x.g[k] * (x.now[k] - x.read[k]));
    return out;
  }

private:
  double lambda_;
};

/// DC-ASGD-a: MS = 0.95 MS + 0.05 g g; lambda_t = lambda_0 / sqrt(MS + 1e-7).
class dc_asgd_a final : public cure {
public:
  explicit dc_asgd_a(double lambda) : lambda_(lambda) {}
  vec applied(const late_gradient& x) override {
    mean_square_.resize(x.g.size());
    vec out;
    for (std::size_t k = 0; k < x.g.size(); ++k) {
      mean_square_[k] = 0.95 * mean_square_[k] + 0.05 * x.g[k] * x.g[k];
      const double lambda = lambda_ / std::sqrt(mean_square_[k] + 1e-7);
      out.push_back(x.g[k] + lambda * x.g[k] * x.g[k] * (x.now[k] - x.read[k]));
    }
    return out;
  }

private:
  double lambda_;
  vec mean_square_;
};

/// g + L (g - the gradient before it), of what is stale.
class delay_feedback final : public cure {
public:
  explicit delay_feedback(double strength) : strength_(strength) {}
  vec applied(const late_gradient& x) override {
    vec out = x.g;
    for (std::size_t k = 0; k < out.size() && x.gap > 0 && !before_.empty(); ++k)
      out[k] += strength_ * (x.g[k] - before_[k]);
    before_ = x.g;
    return out;
  }

private:
  double strength_;
  vec before_;
};

/// Gap-Aware: g / (1 + |w - w_read| / C), C = eta_max (sqrt(r) + 1e-8). r is the mean of the squared
/// velocities after all updates so far, weighted by 0.999^age; without momentum, that of all squared
/// gradients so far.
class gap_aware final : public cure {
public:
  explicit gap_aware(double rate) : rate_(rate) {}
  vec applied(const late_gradient& x) override {
    const bool updated = ++gradients_ > 1;
    if (x.velocity.empty())
      steps_.push_back(x.g);
    else if (updated)
      steps_.push_back(x.velocity);
    if (steps_.empty()) return x.g; // no step has a length yet, and no weight has moved
    vec out;
    for (std::size_t k = 0; k < x.g.size(); ++k)
      out.push_back(x.g[k] /
                    (1 + std::abs(x.now[k] - x.read[k]) / (rate_ * (std::sqrt(mean_square(k)) + 1e-8))));
    return out;
  }

private:
  double mean_square(std::size_t k) const {
    double sum = 0, weights = 0, weight = 1;
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step, weight *= 0.999) {
      sum += weight * (*step)[k] * (*step)[k];
      weights += weight;
    }
    return sum / weights;
  }

  double rate_;
  std::size_t gradients_ = 0;
  std::vector<vec> steps_;
};

/// DANA-Zero: v_i = gamma v_i + g; w -= eta v_i; sent is w - eta gamma (sum of all v_i).
/// DANA-DC uses g + lambda g g (w - sent_i) in place of g.
/// A worker that has left moves the weights no more, so predictions omit its v_i.
class dana final : public cure {
public:
  dana(double gamma, double lambda, std::size_t workers) : gamma_(gamma), lambda_(lambda), v_(workers) {}
  vec applied(const late_gradient& x) override {
    vec& v = v_[x.worker];
    v.resize(x.g.size());
    for (std::size_t k = 0; k < v.size(); ++k)
      v[k] = gamma_ * v[k] + x.g[k] + lambda_ * x.g[k] * x.g[k] * (x.now[k] - x.read[k]);
    return v;
  }
  vec sent(const vec& w, double eta, const vec&) const override {
    vec out = w;
    for (const vec& v : v_)
      for (std::size_t k = 0; k < v.size(); ++k) out[k] -= eta * gamma_ * v[k];
    return out;
  }
  void leave(std::size_t worker) override { v_[worker].clear(); }

private:
  double gamma_, lambda_;
  std::vector<vec> v_;
};

/// DANA-Slim: v_i = gamma v_i + g; w -= eta (gamma v_i + g).
class dana_slim final : public cure {
public:
  dana_slim(double gamma, std::size_t workers) : gamma_(gamma), v_(workers) {}
  vec applied(const late_gradient& x) override {
    vec& v = v_[x.worker];
    v.resize(x.g.size());
    vec out;
    for (std::size_t k = 0; k < v.size(); ++k) {
      v[k] = gamma_ * v[k] + x.g[k];
      out.push_back(gamma_ * v[k] + x.g[k]);
    }
    return out;
  }

private:
  double gamma_;
  std::vector<vec> v_;
};

/// EASGD: a worker at x_i sends read - x_i; the centre w moves by alpha (x_i - w).
class easgd final : public cure {
public:
  explicit easgd(double alpha) : alpha_(alpha) {}
  vec applied(const late_gradient& x) override {
    vec out;
    for (std::size_t k = 0; k < x.g.size(); ++k) {
      const double own = x.read[k] - x.g[k];
      out.push_back(-alpha_ * (own - x.now[k]));
    }
    return out;
  }

private:
  double alpha_;
};

/// CGAD: g times e^(-alpha gap) and a cosine gate that closes at `cutoff`.
class cgad final : public cure {
public:
  cgad(double alpha, double cutoff) : alpha_(alpha), cutoff_(cutoff) {}
  vec applied(const late_gradient& x) override {
    const double gate = x.gap < cutoff_ ? 0.5 * (1 + std::cos(3.14159265358979 * x.gap / cutoff_)) : 0;
    vec out = x.g;
    for (double& g : out) g *= gate * std::exp(-alpha_ * x.gap);
    return out;
  }

private:
  double alpha_, cutoff_;
};

/// MLA: a worker is sent what `updates` updates of Nesterov's momentum without gradients make of the weights.
class mla final : public cure {
public:
  mla(double momentum, std::size_t updates) : momentum_(momentum), updates_(updates) {}
  vec sent(const vec& w, double eta, const vec& velocity) const override {
    vec out = w, v = velocity;
    for (std::size_t t = 0; t < updates_; ++t)
      for (std::size_t k = 0; k < v.size(); ++k) {
        v[k] *= momentum_;
        out[k] -= eta * momentum_ * v[k];
      }
    return out;
  }

private:
  double momentum_;
  std::size_t updates_;
};

/// HeLoCo with all weights in one block: with unit vectors a along g and b along the momentum (1 - mu) v, c =
/// a b, and conf = |g| / (|g| + |momentum|), g is kept from c = c_ok on; below 0 it loses beta c |g| b, beta
/// = min(-c conf, 1); between, its direction becomes (1 - s) a + s b, s = min((1 - c) conf, 1).
class heloco final : public cure {
public:
  heloco(double c_ok, double mu) : c_ok_(c_ok), mu_(mu) {}
  vec applied(const late_gradient& x) override {
    const double of_g = norm(x.g), of_v = norm(x.velocity);
    if (of_g == 0 || of_v == 0) return x.g;
    vec a, b;
    double c = 0;
    for (std::size_t k = 0; k < x.g.size(); ++k) {
      a.push_back(x.g[k] / of_g);
      b.push_back(x.velocity[k] / of_v);
      c += a[k] * b[k];
    }
    if (c >= c_ok_) return x.g;
    const double confidence = of_g / (of_g + (1 - mu_) * of_v);
    vec out;
    if (c < 0) {
      const double beta = std::min(-c * confidence, 1.0);
      for (std::size_t k = 0; k < a.size(); ++k) out.push_back(x.g[k] - beta * c * of_g * b[k]);
      return out;
    }
    const double s = std::min((1 - c) * confidence, 1.0);
    for (std::size_t k = 0; k < a.size(); ++k) out.push_back((1 - s) * a[k] + s * b[k]);
    const double length = norm(out);
    for (double& g : out) g *= of_g / length;
    return out;
  }

private:
  static double norm(const vec& x) {
    double sum = 0;
    for (const double value : x) sum += value * value;
    return std::sqrt(sum);
  }

  double c_ok_, mu_;
};

/// The outer optimiser of the cures that look at an outer momentum.
inline constexpr const char* outer_rule = "nesterov:momentum=0.5";

/// A cure as the user writes it, and the same cure from its paper. `eta_max` is the largest learning rate of
/// a run.
struct cure_pair {
  const char* text;
  std::function<std::unique_ptr<cure>(std::size_t workers, double eta_max)> made;
  const char* momentum_rule = nullptr; ///< the only rule with a momentum that it fits; null: any
};

inline auto scaled(std::function<double(double gap, double workers)> f) {
  return [f](std::size_t workers, double) -> std::unique_ptr<cure> {
    return std::make_unique<scale>([f, workers](double gap) { return f(gap, static_cast<double>(workers)); });
  };
}

template <class Cure, class... Numbers>
auto fixed(Numbers... n) {
  return [=](std::size_t, double) -> std::unique_ptr<cure> { return std::make_unique<Cure>(n...); };
}

template <class Cure, class... Numbers>
auto by_worker(Numbers... n) {
  return [=](std::size_t workers, double) -> std::unique_ptr<cure> {
    return std::make_unique<Cure>(n..., workers);
  };
}

/// Each cure with its defaults, and with other numbers if it takes any.
inline std::vector<cure_pair> every_cure() {
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
      {"dc-asgd", fixed<dc_asgd>(0.04)},
      {"dc-asgd:0.7", fixed<dc_asgd>(0.7)},
      {"dc-asgd-a", fixed<dc_asgd_a>(2.0)},
      {"dc-asgd-a:0.3", fixed<dc_asgd_a>(0.3)},
      {"delay-feedback", fixed<delay_feedback>(1.0)},
      {"delay-feedback:0.4", fixed<delay_feedback>(0.4)},
      {"gap-aware",
       [](std::size_t, double eta_max) -> std::unique_ptr<cure> {
         return std::make_unique<gap_aware>(eta_max);
       }},
      {"dana-zero", by_worker<dana>(0.9, 0.0)},
      {"dana-zero:0.6", by_worker<dana>(0.6, 0.0)},
      {"dana-dc", by_worker<dana>(0.9, 2.0)},
      {"dana-dc:0.7,0.4", by_worker<dana>(0.7, 0.4)},
      {"dana-slim", by_worker<dana_slim>(0.9)},
      {"dana-slim:0.6", by_worker<dana_slim>(0.6)},
      {"easgd",
       [](std::size_t workers, double) -> std::unique_ptr<cure> {
         return std::make_unique<easgd>(0.9 / static_cast<double>(workers));
       }},
      {"easgd:0.2", fixed<easgd>(0.2)},
      {"cgad", fixed<cgad>(0.1, 16.0)},
      {"cgad:0.3,5", fixed<cgad>(0.3, 5.0)},
      {"mla",
       [](std::size_t workers, double) -> std::unique_ptr<cure> {
         return std::make_unique<mla>(0.5, workers - 1);
       },
       outer_rule},
      {"mla:4", fixed<mla>(0.5, std::size_t{4}), outer_rule},
      {"heloco", fixed<heloco>(0.5, 0.5), outer_rule},
      {"heloco:0.9", fixed<heloco>(0.9, 0.5), outer_rule},
  };
}

} // namespace mailgrad::testing::oracle
