#pragma once

#include <mailgrad/cli/report/run_figures.hpp>

#include <cstddef>
#include <optional>
#include <string>

namespace mailgrad {

/// The staleness that the policy of a run lets expect, of workers that are always busy.
///
/// Source  docs/policies.md. The mean follows from counting alone, whatever the times of steps are. For a
///         worker that makes a share p of all updates under `async` it is 1 / p - 1. Where times of steps are
///         exponential, the gap k has the probability p (1 - p)^k, since between two updates of the worker
///         each one is somebody else's with probability 1 - p.
struct expected_staleness {
  std::optional<double> mean;      ///< in versions
  bool at_most = false;            ///< `mean` is a bound of it
  std::optional<double> geometric; ///< p, where the law is known
  std::string in_words;            ///< one sentence, also where nothing is known
};

/// What is expected of one worker of a run.
expected_staleness expected_of(const run_figures& run, std::size_t worker);

} // namespace mailgrad
