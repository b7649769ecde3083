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
  vec g;        ///< the clipped gradient
  vec now;      ///< the present weights
  vec read;     ///< the weights that the worker was sent
  vec velocity; ///< of the server's momentum before this gradient; empty if it has none
};

class cure {
public:
  virtual ~cure() = default;
  /// The factor on the learning rate of the update.
  virtual double factor(double) const { return 1; }
  /// The values that are applied in place of the gradient.
  virtual vec applied(const late_gradient& x) { return x.g; }
  /// The weights that a worker is sent, if the next update has the learning rate `eta`.
  virtual vec sent(const vec& w, double) const { return w; }
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
  vec sent(const vec& w, double eta) const override {
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

/// A cure as the user writes it, and the same cure from its paper. `eta_max` is the largest learning rate of
/// a run.
struct cure_pair {
  const char* text;
  std::function<std::unique_ptr<cure>(std::size_t workers, double eta_max)> made;
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
  };
}

} // namespace mailgrad::testing::oracle
