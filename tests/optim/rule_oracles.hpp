#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// Every update rule and schedule as its paper defines it, in plain loops and double precision, without calls
// of the tested code. The numbers are written out, so that a changed default fails a test.

namespace mailgrad::testing::oracle {

/// The state that a rule keeps for one weight.
struct memory {
  double a = 0;
  double b = 0;
};

/// Computes one weight after step t, counted from 1, with gradient g and learning rate eta.
using rule = std::function<double(double w, double g, std::uint64_t t, double eta, memory&)>;

inline rule sgd() {
  return [](double w, double g, std::uint64_t, double eta, memory&) { return w - eta * g; };
}

inline rule momentum(double beta) {
  return [=](double w, double g, std::uint64_t, double eta, memory& v) {
    v.a = beta * v.a + g;
    return w - eta * v.a;
  };
}

inline rule nesterov(double beta) {
  return [=](double w, double g, std::uint64_t, double eta, memory& v) {
    v.a = beta * v.a + g;
    return w - eta * g - eta * beta * v.a;
  };
}

inline rule adagrad(double epsilon, double initial) {
  return [=](double w, double g, std::uint64_t t, double eta, memory& s) {
    if (t == 1) s.a = initial;
    s.a += g * g;
    return w - eta * g / (std::sqrt(s.a) + epsilon);
  };
}

inline rule rmsprop(double alpha, double epsilon) {
  return [=](double w, double g, std::uint64_t, double eta, memory& s) {
    s.a = alpha * s.a + (1 - alpha) * g * g;
    return w - eta * g / (std::sqrt(s.a) + epsilon);
  };
}

inline rule adam(double beta1, double beta2, double epsilon) {
  return [=](double w, double g, std::uint64_t t, double eta, memory& s) {
    s.a = beta1 * s.a + (1 - beta1) * g;
    s.b = beta2 * s.b + (1 - beta2) * g * g;
    double past1 = 1, past2 = 1;
    for (std::uint64_t i = 0; i < t; ++i) {
      past1 *= beta1;
      past2 *= beta2;
    }
    const double m_hat = s.a / (1 - past1);
    const double v_hat = s.b / (1 - past2);
    return w - eta * m_hat / (std::sqrt(v_hat) + epsilon);
  };
}

/// Delta += g; each N-th time m = beta m + Delta / N, w -= eta ((1 - cN + c) beta m + g / N), Delta = 0; else
/// w -= eta (c beta m + g / N).
inline rule delayed_nesterov(double beta, std::uint64_t period, double c) {
  return [=](double w, double g, std::uint64_t t, double eta, memory& s) {
    double& m = s.a;
    double& delta = s.b;
    const auto n = static_cast<double>(period);
    delta += g;
    if (t % period != 0) return w - eta * (c * beta * m + g / n);
    m = beta * m + delta / n;
    delta = 0;
    return w - eta * ((1 - c * n + c) * beta * m + g / n);
  };
}

/// A rule as the user writes it, the same rule from its paper, and its default learning rate and weight
/// decay.
struct rule_pair {
  const char* text;
  rule made;
  double default_rate;
  double default_decay = 0;
};

inline std::vector<rule_pair> every_rule() {
  return {
      {"sgd", sgd(), 1e-3},
      {"momentum", momentum(0.9), 1e-3},
      {"momentum:momentum=0.6", momentum(0.6), 1e-3},
      {"momentum:momentum=-0.2", momentum(-0.2), 1e-3},
      {"nesterov", nesterov(0.9), 1e-3},
      {"nesterov:momentum=0.6", nesterov(0.6), 1e-3},
      {"adagrad", adagrad(1e-10, 0), 1e-2},
      {"adagrad:epsilon=0.02,initial_sum=0.3", adagrad(0.02, 0.3), 1e-2},
      {"rmsprop", rmsprop(0.99, 1e-8), 1e-2},
      {"rmsprop:alpha=0.7,epsilon=0.03", rmsprop(0.7, 0.03), 1e-2},
      {"adam", adam(0.9, 0.999, 1e-8), 1e-3},
      {"adam:beta1=0.6,beta2=0.8,epsilon=0.03", adam(0.6, 0.8, 0.03), 1e-3},
      {"adamw", adam(0.9, 0.999, 1e-8), 1e-3, 1e-2},
      {"delayed-nesterov", delayed_nesterov(0.9, 1, 0), 0.7},
      {"delayed-nesterov:period=3", delayed_nesterov(0.9, 3, 0), 0.7},
      {"delayed-nesterov:momentum=0.6,period=4,early=0.2", delayed_nesterov(0.6, 4, 0.2), 0.7},
      {"delayed-nesterov:period=2,early=0.5", delayed_nesterov(0.9, 2, 0.5), 0.7},
  };
}

/// The factor on the learning rate of step t, counted from 1.
using schedule = std::function<double(std::uint64_t t)>;

inline schedule warmed_up(std::uint64_t warmup, schedule shape) {
  return [=](std::uint64_t t) {
    return t <= warmup ? static_cast<double>(t) / static_cast<double>(warmup) : shape(t - warmup);
  };
}

/// A schedule that falls by `factor` after each `every` steps.
inline schedule steps(std::uint64_t every, double factor) {
  return [=](std::uint64_t t) {
    double rate = 1;
    for (std::uint64_t done = every; done < t; done += every) rate *= factor;
    return rate;
  };
}

/// A schedule that is half a cosine over `span` steps, from 1 down to `final`, and constant after that.
inline schedule cosine(std::uint64_t span, double final) {
  return [=](std::uint64_t t) {
    if (t > span) return final;
    const double angle = 3.14159265358979323846 * static_cast<double>(t - 1) / static_cast<double>(span);
    return final + 0.5 * (1 - final) * (1 + std::cos(angle));
  };
}

struct schedule_pair {
  const char* text;
  schedule made;
};

inline std::vector<schedule_pair> every_schedule() {
  const schedule level = [](std::uint64_t) { return 1.0; };
  return {
      {"constant", level},
      {"constant:warmup=7", warmed_up(7, level)},
      {"step", steps(1000, 0.1)},
      {"step:every=3,factor=0.6", steps(3, 0.6)},
      {"step:every=4,factor=0.3,warmup=3", warmed_up(3, steps(4, 0.3))},
      {"cosine:total=17", cosine(17, 0)},
      {"cosine:total=11,final=0.2", cosine(11, 0.2)},
      {"cosine:total=13,final=0.05,warmup=4", warmed_up(4, cosine(9, 0.05))},
  };
}

/// The factor that scales a gradient down to a norm of at most `most`.
inline double clip(const std::vector<double>& g, double most) {
  double squares = 0;
  for (const double x : g) squares += x * x;
  const double norm = std::sqrt(squares);
  return norm > most ? most / (norm + 1e-6) : 1;
}

/// Weights that a rule updates, with both penalties and a schedule.
class weights {
public:
  weights(std::vector<double> first, rule r, double rate, schedule s, double l2, double decay)
      : values(std::move(first)), rule_(std::move(r)), rate_(rate), schedule_(std::move(s)), l2_(l2),
        decay_(decay), memory_(values.size()) {}

  /// The learning rate of the next step.
  double learning_rate() const { return rate_ * schedule_(steps + 1); }

  void step(const std::vector<double>& g, double factor = 1) {
    const double eta = factor * learning_rate();
    ++steps;
    for (std::size_t k = 0; k < values.size(); ++k) {
      const double w = values[k];
      values[k] = rule_(w - eta * decay_ * w, g[k] + l2_ * w, steps, eta, memory_[k]);
    }
  }

  /// The velocity, for rules that keep it in memory::a.
  std::vector<double> velocity() const {
    std::vector<double> out;
    for (const memory& m : memory_) out.push_back(m.a);
    return out;
  }

  std::vector<double> values;
  std::uint64_t steps = 0;

private:
  rule rule_;
  double rate_;
  schedule schedule_;
  double l2_, decay_;
  std::vector<memory> memory_;
};

} // namespace mailgrad::testing::oracle
