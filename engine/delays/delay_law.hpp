#pragma once

#include <mailgrad/kernels/functors/philox.hpp>

#include <algorithm>
#include <array>
#include <cmath>
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

/// The random numbers of one step of one worker, which depend on the seed, the worker and the step alone. The
/// distributions are written out, since those of the standard library differ between compilers.
/// Source  Philox (philox.hpp); normal(): Box & Muller, 1958; gamma(): Marsaglia & Tsang, ACM TOMS 2000.
class step_draws {
public:
  /// Step 0 is for what a worker draws once.
  step_draws(std::uint64_t seed, std::uint32_t worker, std::uint64_t step);
  /// The middle of one of 2^53 equal parts of the unit interval.
  double uniform() {
    const std::uint64_t high = word();
    const std::uint64_t bits = (high << 32 | word()) >> 11;
    return (static_cast<double>(bits) + 0.5) * 0x1p-53;
  }
  double exponential();       ///< with mean 1
  double normal();            ///< with mean 0 and variance 1
  double gamma(double shape); ///< with mean `shape` and scale 1; shape > 0

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

/// A worker that stands still for a span in each period of its own. A step goes on after the outage.
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

/// The seconds of each step in a list. When the list has ended, it begins anew.
class listed_delay final : public delay_law {
public:
  /// The list has at least one entry. The first step takes that of number `first`, from 0.
  listed_delay(std::shared_ptr<const std::vector<double>> seconds, std::size_t first)
      : seconds_(std::move(seconds)), first_(first) {}

  double seconds(std::uint64_t step, double) override {
    return std::min((*seconds_)[(first_ + step - 1) % seconds_->size()], longest);
  }

private:
  std::shared_ptr<const std::vector<double>> seconds_;
  std::size_t first_;
};

/// Steps that take `factor` times as long as another law says. That law is told when they really begin.
class slowed_delay final : public delay_law {
public:
  slowed_delay(std::unique_ptr<delay_law> law, double factor) : law_(std::move(law)), factor_(factor) {}

  double seconds(std::uint64_t step, double begins) override {
    return std::min(factor_ * law_->seconds(step, begins), longest);
  }
  double seconds_on(const batch& inputs, std::uint64_t step, double begins) override {
    return std::min(factor_ * law_->seconds_on(inputs, step, begins), longest);
  }

private:
  std::unique_ptr<delay_law> law_;
  double factor_;
};

} // namespace mailgrad
