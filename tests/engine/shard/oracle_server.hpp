#pragma once

#include <mailgrad/tests/optim/cure_oracles.hpp>
#include <mailgrad/tests/optim/rule_oracles.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// A parameter server as the papers define it, in plain loops and double precision. A test plays the same
// script on it and on a shard: workers push in an uneven order, and one of them leaves.

namespace mailgrad::testing::oracle {

/// A worker pushes a gradient and then reads the weights, or it leaves.
struct event {
  std::uint32_t worker;
  bool leaves = false;
};

/// The events of three workers. The gaps go from 0 to 9.
inline const std::vector<event> script{{0}, {0}, {1}, {0},       {2}, {0}, {0}, {0}, {0}, {1}, {0}, {0},
                                       {0}, {2}, {0}, {1, true}, {0}, {2}, {2}, {0}, {0}, {2}, {0}, {2}};

/// The gradient of weight `k` at `w`: that of a parabola, with its own slope and centre, plus periodic noise.
inline double slope(std::size_t k, double w, std::uint64_t gradients) {
  const auto i = static_cast<double>(k);
  return (0.4 + 0.2 * (i - 3 * std::floor(i / 3))) * (w - std::sin(i)) +
         0.8 * std::sin(2.1 * static_cast<double>(gradients) + 0.7 * i);
}

/// The settings of a run apart from its rule and its cure.
struct around {
  double rate = 0.05;
  const char* schedule = "step:every=4,factor=0.7,warmup=3";
  double l2 = 0.02;
  double decay = 0.1;
  double clip = 1.2;
};

inline schedule schedule_of(const around& a) {
  for (const schedule_pair& s : every_schedule())
    if (std::string(s.text) == a.schedule) return s.made;
  return warmed_up(3, steps(4, 0.7));
}

/// How a server makes updates.
struct plan {
  const char* policy = "async";
  std::size_t batch = 1; ///< gradients in an update; under sync, there is one of each worker present instead
  bool waits = false;    ///< whether a worker waits until the batch with its gradient is applied
  bool sums = false;     ///< whether the gradients of a batch are summed; if not, their mean is taken
  std::vector<event> events = script;
};

class server {
public:
  server(std::vector<double> first, std::unique_ptr<cure> c, rule r, bool has_velocity, const around& a,
         const plan& p, std::size_t workers)
      : clip_(a.clip), plan_(p), has_velocity_(has_velocity), cure_(std::move(c)),
        weights_(std::move(first), std::move(r), a.rate, schedule_of(a), a.l2, a.decay), workers_(workers),
        present_(workers) {
    for (worker& w : workers_) send(w);
  }

  void play(const event& e) {
    if (e.leaves) {
      cure_->leave(e.worker);
      --present_;
      return;
    }
    pending_.push_back(push(e.worker));
    treat_repeats_of(e.worker);
    const std::size_t wanted = std::string(plan_.policy) == "sync" ? present_ : plan_.batch;
    const bool complete = pending_.size() == wanted;
    if (complete) apply();
    if (!plan_.waits) send(workers_[e.worker]);
    for (const pushed& x : pending_)
      if (complete && plan_.waits) send(workers_[x.what.worker]);
    if (complete) pending_.clear();
  }

  const std::vector<double>& values() const { return weights_.values; }
  const std::vector<double>& sent(std::size_t number) const { return workers_[number].read; }

private:
  struct worker {
    std::vector<double> read;
    std::uint64_t version_read = 0;
    std::uint64_t steps = 0;
  };
  struct pushed {
    late_gradient what;
    std::uint64_t version_read;
    std::uint64_t step;
    std::optional<std::vector<double>>
        applied{}; ///< the cured gradient, if it was made before the batch was complete
  };

  void send(worker& w) {
    w.read = cure_->sent(weights_.values, weights_.learning_rate(),
                         has_velocity_ ? weights_.velocity() : std::vector<double>{});
    w.version_read = weights_.steps;
  }

  pushed push(std::uint32_t number) {
    worker& w = workers_[number];
    late_gradient x{number, {}, {}, w.read, {}};
    ++gradients_;
    for (std::size_t k = 0; k < w.read.size(); ++k) x.g.push_back(slope(k, w.read[k], gradients_));
    const double scale = clip(x.g, clip_);
    for (double& g : x.g) g *= scale;
    return {x, w.version_read, ++w.steps};
  }

  double factor_of(const pushed& x) const {
    return cure_->factor(static_cast<double>(weights_.steps - x.version_read));
  }

  std::vector<double> treated(pushed& x) {
    x.what.now = weights_.values;
    x.what.gap = static_cast<double>(weights_.steps - x.version_read);
    if (has_velocity_) x.what.velocity = weights_.velocity();
    return cure_->applied(x.what);
  }

  /// Once a worker has sent a second gradient of a batch, its gradients are added up as they come.
  void treat_repeats_of(std::uint32_t number) {
    const auto of_worker = [&](const pushed& x) { return x.what.worker == number; };
    if (std::ranges::count_if(pending_, of_worker) < 2) return;
    for (pushed& x : pending_)
      if (of_worker(x) && !x.applied) x.applied = treated(x);
  }

  /// The factor of a single gradient scales the learning rate. In a batch, it scales the gradient itself.
  void apply() {
    if (plan_.batch == 1 && !plan_.waits) {
      const double factor = factor_of(pending_[0]);
      return weights_.step(treated(pending_[0]), factor);
    }
    std::ranges::sort(pending_, {}, [](const pushed& x) { return std::pair(x.what.worker, x.step); });
    std::vector<double> total(weights_.values.size());
    for (pushed& x : pending_) {
      const double share = factor_of(x) / (plan_.sums ? 1 : static_cast<double>(pending_.size()));
      const std::vector<double> applied = x.applied ? *x.applied : treated(x);
      for (std::size_t k = 0; k < total.size(); ++k) total[k] += share * applied[k];
    }
    weights_.step(total);
  }

  double clip_;
  plan plan_;
  bool has_velocity_;
  std::unique_ptr<cure> cure_;
  weights weights_;
  std::vector<worker> workers_;
  std::size_t present_;
  std::vector<pushed> pending_;
  std::uint64_t gradients_ = 0;
};

} // namespace mailgrad::testing::oracle
