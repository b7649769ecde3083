#pragma once

#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/engine/record/rehearsal.hpp>
#include <mailgrad/lab/virtual_run.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace mailgrad::lab {

/// A worker whose steps take `factor` times as long.
struct slowed_worker {
  rank worker;
  double factor = 1;
};

/// What is to be other than in a recorded run.
struct what_if {
  std::string policy{};                ///< empty: as recorded, with each switch where it came
  std::uint32_t workers = 0;           ///< 0: as many
  std::string delays{};                ///< how long steps take, as delay_spec has it; empty: as recorded
  std::uint64_t delays_seed = 1;       ///< of that law
  std::vector<slowed_worker> slowed{}; ///< on top of either
};

/// The figures by which a recorded run and a virtual one are compared. Those of the recorded run are of its
/// first shard.
struct run_figures {
  double seconds = 0;
  std::uint64_t updates = 0;
  std::uint64_t discarded = 0; ///< gradients
  double waited = 0;           ///< seconds of all workers, for others at a barrier or a bound
  staleness_histogram gaps;
};
run_figures figures_of(const recorded_pace& p);
run_figures figures_of(const training_report& r);

/// The recorded steps as a trace that `--delays trace:FILE` reads. Each begins when the one before it of its
/// worker ends, as under async.
std::string trace_csv(const recorded_pace& p);

/// The half of the sum of the differences of all shares: 0 if the distributions are equal, 1 if they have no
/// gap in common. Both have a gap.
double total_variation(const staleness_histogram& a, const staleness_histogram& b);

/// A recorded run once more in virtual time, with the durations that its steps had, or under other
/// conditions: the same model, samples and seeds, and as many mini-batches.
///
/// Assumes  how long a step takes does not depend on the policy or on how many workers there are, although
///          real workers share cores and memory. Worker r of more than M recorded ones has the steps of
///          worker r mod M, from another place on. When a worker makes more steps than it has recorded,
///          they begin anew.
/// Differs  updates and messages take no time of their own: it is within that of the steps. Batches are dealt
///          in the order in which virtual workers ask.
/// Guarantees  as virtual_run. With nothing changed, gradients come in the order of the first shard of the
///          recorded run, but for the last steps of workers, of which one more or less may be dealt one.
class retimed_run {
public:
  /// `recorded` are the options of the run, without a recording; what makes no sense in virtual time is left
  /// out, such as devices, files, tests and conditions that end it.
  /// Errors  std::invalid_argument in one line: no such worker, a factor that is not above 0, a wrong law or
  ///         policy; recording_error as pace_of().
  retimed_run(const training_options& recorded, const recording& order, const what_if& changed);

  const recorded_pace& recorded() const noexcept { return pace_; }
  /// The options of the virtual run, for virtual_run.
  const training_options& options() const noexcept { return options_; }
  std::uint32_t workers() const noexcept { return workers_; }
  named_delays delays() const;

private:
  recorded_pace pace_;
  what_if changed_;
  std::uint32_t workers_;
  training_options options_;
};

} // namespace mailgrad::lab
