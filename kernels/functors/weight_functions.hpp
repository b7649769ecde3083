#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

#include <cmath>
#include <variant>

namespace mailgrad {

// What cures of staleness and local steps do with one weight. Each function takes the elements it reads, then
// those it writes. w is the current weight, r is the weight that the gradient was computed from, and `scale`
// is the factor of the gradient g. The classes in optim/cures/ name the papers.

/// Estimates the gradient at w from the gradient g at r, to first order. The curvature is taken as lambda
/// g^2.
MAILGRAD_HOST_DEVICE inline float delay_compensated(float g, float lambda, float w, float r) noexcept {
  return g + lambda * g * g * (w - r);
}

struct scaled_copy {
  static constexpr std::size_t reads = 1, writes = 1;
  float scale;
  MAILGRAD_HOST_DEVICE void operator()(float g, float& out) const { out = scale * g; }
};

struct subtraction {
  static constexpr std::size_t reads = 2, writes = 1;
  MAILGRAD_HOST_DEVICE void operator()(float a, float b, float& out) const { out = a - b; }
};

struct delay_compensation_step {
  static constexpr std::size_t reads = 3, writes = 1;
  float scale, lambda;
  MAILGRAD_HOST_DEVICE void operator()(float g, float w, float r, float& out) const {
    out = delay_compensated(scale * g, lambda, w, r);
  }
};

struct adaptive_delay_compensation_step {
  static constexpr std::size_t reads = 3, writes = 2;
  float scale, lambda;
  MAILGRAD_HOST_DEVICE void operator()(float g, float w, float r, float& mean_square, float& out) const {
    constexpr float past = 0.95F;
    constexpr float epsilon = 1e-7F;
    const float value = scale * g;
    mean_square = past * mean_square + (1 - past) * value * value;
    out = delay_compensated(value, lambda / std::sqrt(mean_square + epsilon), w, r);
  }
};

/// Adds what the gradient has changed since the one before it, which is replaced.
struct feedback_step {
  static constexpr std::size_t reads = 1, writes = 2;
  float scale, strength;
  MAILGRAD_HOST_DEVICE void operator()(float g, float& before, float& out) const {
    const float value = scale * g;
    out = strength == 0 ? value : value + strength * (value - before);
    before = value;
  }
};

/// `mean_square` is a running mean of step^2. `unbiased` corrects the bias of its start at 0, as Adam does.
struct gap_aware_step {
  static constexpr std::size_t reads = 3, writes = 2;
  float rate, unbiased;
  MAILGRAD_HOST_DEVICE void operator()(float step, float w, float r, float& mean_square, float& out) const {
    constexpr double past = 0.999;
    mean_square = static_cast<float>(past) * mean_square + static_cast<float>(1 - past) * step * step;
    const float usual = rate * (std::sqrt(mean_square * unbiased) + 1e-8F);
    const float gap = std::abs(w - r);
    out /= 1 + (usual > 0 ? gap / usual : 0);
  }
};

/// Adds the gradient in `out` to a worker's velocity v, and writes the new velocity to `out`. `sum` is the
/// sum of all workers' velocities.
struct worker_velocity_step {
  static constexpr std::size_t reads = 0, writes = 3;
  float momentum;
  MAILGRAD_HOST_DEVICE void operator()(float& v, float& sum, float& out) const {
    out = momentum * v + out;
    sum += out - v;
    v = out;
  }
};

/// Takes the velocity of a worker that has left out of the sum.
struct forgotten_velocity {
  static constexpr std::size_t reads = 0, writes = 2;
  MAILGRAD_HOST_DEVICE void operator()(float& v, float& sum) const {
    sum -= v;
    v = 0;
  }
};

/// Updates a velocity and writes the step with Nesterov's look-ahead.
struct ahead_velocity_step {
  static constexpr std::size_t reads = 1, writes = 2;
  float scale, momentum;
  MAILGRAD_HOST_DEVICE void operator()(float g, float& v, float& out) const {
    const float value = scale * g;
    v = momentum * v + value;
    out = momentum * v + value;
  }
};

/// Predicts the weight after the sum of all velocities has moved it.
struct look_ahead {
  static constexpr std::size_t reads = 2, writes = 1;
  float reach;
  MAILGRAD_HOST_DEVICE void operator()(float w, float sum, float& out) const { out = w - reach * sum; }
};

/// What a shard applies for the difference g = r - x that a worker sends. x is the worker's own weight.
struct elastic_step {
  static constexpr std::size_t reads = 3, writes = 1;
  float scale, pull;
  MAILGRAD_HOST_DEVICE void operator()(float g, float w, float r, float& out) const {
    out = pull * (w - r + scale * g);
  }
};

/// The worker's part of an elastic step: its weight x is pulled towards `met`, the weight of the shard.
struct elastic_pull {
  static constexpr std::size_t reads = 1, writes = 1;
  float pull;
  MAILGRAD_HOST_DEVICE void operator()(float met, float& x) const { x = x - pull * (x - met); }
};

/// Each function in this list runs on the host and on a GPU. There is no other list.
using weight_function =
    std::variant<scaled_copy, subtraction, delay_compensation_step, adaptive_delay_compensation_step,
                 gap_aware_step, worker_velocity_step, forgotten_velocity, ahead_velocity_step, look_ahead,
                 elastic_step, elastic_pull, feedback_step>;

} // namespace mailgrad
