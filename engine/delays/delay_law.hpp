#pragma once

#include <mailgrad/kernels/functors/philox.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

namespace mailgrad {

struct batch;

/// How long each step of one worker takes, which is prescribed for an experiment.
/// Threads one caller at a time; the laws of two workers share nothing that changes.
class delay_law {
public:
  /// No step takes longer, so that the times of a run can be added up: a draw of a heavy tail is cut here.
  static constexpr double longest = 1e7;

  virtual ~delay_law() = default;

  /// The seconds from the begin of a step to its end, 0 <= seconds <= longest. `step` is the worker's own
  /// count from 1, and `begins` the seconds since the run began. Neither may fall from call to call.
  virtual double seconds(std::uint64_t step, double begins) = 0;

  /// The same of a step that computes this batch, for laws by which time depends on the samples.
  virtual double seconds_on([[maybe_unused]] const batch& inputs, std::uint64_t step, double begins) {
    return seconds(step, begins);
  }
};

/// The random numbers of one step of one worker. They depend on the seed, the worker and the step alone, so
/// the order in which the steps of different workers are drawn makes no difference.
///
/// The distributions are written out here, because those of the standard library draw other numbers with each
/// compiler.
/// Source  the numbers: Philox (philox.hpp). normal(): Box & Muller, 1958. gamma(): Marsaglia & Tsang, "A
///         simple method for generating gamma variables", 2000.
class step_draws {
public:
  /// Step 0 is for what a worker draws once.
  step_draws(std::uint64_t seed, std::uint32_t worker, std::uint64_t step);

  /// 0 < number < 1.
  double uniform();
  double exponential(); ///< with mean 1
  double normal();      ///< with mean 0 and variance 1
  /// With mean `shape` and scale 1; shape > 0.
  double gamma(double shape);

private:
  std::uint32_t word();

  philox draw_;
  philox::numbers counter_;
  std::array<std::uint32_t, 4> words_{}; ///< of the present counter
  std::size_t used_ = 4;
};

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

/// A worker that is fast or slow for many steps at a time: a Markov chain with two states, which may change
/// before each step. The first state is drawn from the long-run shares of both.
class markov_delay final : public delay_law {
public:
  struct terms {
    double time = 1;       ///< seconds of a fast step
    double factor = 10;    ///< a slow step takes so many times as long
    double to_slow = 0.05; ///< probability
    double to_fast = 0.2;  ///< probability
  };

  markov_delay(drawn_worker who, const terms& t) : who_(who), terms_(t) {}

  double seconds(std::uint64_t step, double begins) override;

private:
  drawn_worker who_;
  terms terms_;
  std::uint64_t known_ = 0; ///< the step whose state `slow_` is; 0: none
  bool slow_ = false;
};

/// A worker that stands still for a span in each period. The periods of each worker begin at a moment of its
/// own. A step that an outage falls into goes on after it.
/// Source  the universal computation model of Tyurin & Richtarik, with a speed that is 1 or 0.
class outage_delay final : public delay_law {
public:
  struct terms {
    double time = 1;    ///< seconds of a step without an outage
    double every = 100; ///< seconds of a period
    double lasts = 10;  ///< seconds, less than `every`
  };

  outage_delay(drawn_worker who, const terms& t);

  double seconds(std::uint64_t step, double begins) override;
  /// How many seconds of the worker's period are over when the run begins. An outage is at its end.
  double phase() const noexcept { return phase_; }

private:
  terms terms_;
  double phase_;
};

/// Durations that a file lists for a worker: a step takes as long as the last row says that is no later than
/// its begin, or the first row.
class traced_delay final : public delay_law {
public:
  struct row {
    double at; ///< seconds since the run began, ascending
    double takes;
  };

  /// The list has at least one row.
  explicit traced_delay(std::shared_ptr<const std::vector<row>> rows) : rows_(std::move(rows)) {}

  double seconds(std::uint64_t step, double begins) override;

private:
  std::shared_ptr<const std::vector<row>> rows_;
  std::size_t present_ = 0;
};

/// The seconds of each step in a list. When the list has ended, it begins anew.
class listed_delay final : public delay_law {
public:
  /// The list has at least one entry. The first step takes that of number `first`, from 0.
  listed_delay(std::shared_ptr<const std::vector<double>> seconds, std::size_t first)
      : seconds_(std::move(seconds)), first_(first) {}

  double seconds(std::uint64_t step, double begins) override;

private:
  std::shared_ptr<const std::vector<double>> seconds_;
  std::size_t first_;
};

/// Steps whose time depends on their samples: the mean of what the class of each sample takes.
class class_delay final : public delay_law {
public:
  /// `seconds` by class.
  explicit class_delay(std::shared_ptr<const std::vector<double>> seconds) : seconds_(std::move(seconds)) {}

  /// Of a step on one sample of each class.
  double seconds(std::uint64_t step, double begins) override;
  /// Of a batch whose labels are classes that the list has.
  double seconds_on(const batch& inputs, std::uint64_t step, double begins) override;

private:
  std::shared_ptr<const std::vector<double>> seconds_;
};

/// Steps that take `factor` times as long as another law says. That law is told when they really begin.
class slowed_delay final : public delay_law {
public:
  slowed_delay(std::unique_ptr<delay_law> law, double factor) : law_(std::move(law)), factor_(factor) {}

  double seconds(std::uint64_t step, double begins) override;
  double seconds_on(const batch& inputs, std::uint64_t step, double begins) override;

private:
  std::unique_ptr<delay_law> law_;
  double factor_;
};

} // namespace mailgrad
