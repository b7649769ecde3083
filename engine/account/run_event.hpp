#pragma once

#include <mailgrad/engine/account/checkpoint_account.hpp>
#include <mailgrad/engine/account/metrics_line.hpp>
#include <mailgrad/engine/account/staleness_histogram.hpp>
#include <mailgrad/engine/account/training_progress.hpp>
#include <mailgrad/engine/account/training_report.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace mailgrad {

/// The weights of a run in progress were tested, on the samples held out for it if there are any, else on the
/// test samples.
struct evaluation_made {
  std::uint64_t steps = 0;          ///< trained when the weights were asked for
  double loss = 0;                  ///< mean over the samples
  std::optional<double> accuracy{}; ///< where classes are predicted
  std::optional<double> rmse{};     ///< where numbers are predicted
  double seconds = 0;               ///< that the test took, on a thread of its own
  bool held_out = false;            ///< whether the samples are those of data_split::validation
  std::string why_on_host{};        ///< in a run with a card: why it was not tested there, in one line
};

/// A test of the weights of a run in progress that could not be made. No figure of the run is judged by it.
struct test_left_out {
  std::uint64_t steps = 0; ///< as in evaluation_made
  std::string why;         ///< in one line
};

/// The gaps of the gradients that a line of metrics tells of, in front of that line, if there are any.
struct gaps_measured {
  std::uint64_t steps = 0; ///< as in the line
  double time_s = 0;       ///< likewise
  staleness_histogram gaps{};
};

/// Who takes part in a run over processes: with whom it begins, and then whoever comes or goes.
struct members_changed {
  std::string what;                  ///< in one line: "worker 1 has joined from 10.0.0.3:51234"
  std::uint32_t workers = 0;         ///< that are in the run now
  std::uint32_t parameter_hosts = 0; ///< likewise
};

/// What an observer of a run is told: how far it has come, a test of its weights, a switch of policy, a wait
/// that an actor names, what has become of its checkpoints when one was written or failed, the gaps that a
/// line tells of, a test that was left out, or a change of its members. A later version may add alternatives,
/// so visit it with a case for all others.
using run_event = std::variant<metrics_line, evaluation_made, policy_switch, wait_named, checkpoint_account,
                               gaps_measured, test_left_out, members_changed>;

} // namespace mailgrad
