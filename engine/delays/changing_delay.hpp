#pragma once

#include <mailgrad/engine/delays/drawn_delay.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace mailgrad {

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
///
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
