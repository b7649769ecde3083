#pragma once

#include <mailgrad/engine/account/gradient_ledger.hpp>
#include <mailgrad/engine/account/run_outcome.hpp>
#include <mailgrad/engine/account/run_trace.hpp>
#include <mailgrad/engine/account/training_progress.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/cures/cure.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// The ledger of a run, and the contradictions between the counts of its two ends.
struct audited_ledger {
  gradient_ledger ledger;
  /// Of a run that is over: that of a shard that is left, if `ledger` is that of a lost one.
  std::optional<shard_ledger> kept{};
  std::vector<std::string> contradictions; ///< one line each; empty if every gradient is accounted for
};

/// Whether a shard died before its report. A user's own parameter actor may leave out accounts, but it always
/// reports weights.
bool is_lost(const shard_report& s);

/// Compares two independent counts of the gradients of a run.
///
/// Workers count the gradients that they produced. Shards, and under hogwild the shared block, count those
/// that they took. Every shard has a ledger of its own. The run gets the one that does not balance, if there
/// is one, otherwise the one that lost most. The ledgers differ only if a worker died between two pushes, or
/// if a shard is lost, which has lost all. If its ledger is that of a lost shard, it gets `kept` from the
/// others by the same rule.
///
/// A gradient may be lost with its worker, with a shard, or in a batch that was never complete. Any other
/// gradient that is missing, or was taken more than once, is a contradiction: the ledger does not balance.
///
/// While the run goes on, nothing contradicts, because the counts are of different moments. What is produced
/// and not yet accounted for is then under way, between a worker and a shard or in a batch.
///
/// `written` counts the updates of the shared block in hogwild; none if the run had no such block. No shard
/// knows how many updates a lost worker made there, so the excess counts as produced by that worker.
audited_ledger audit(const run_outcome& outcome, std::optional<std::uint64_t> written);

/// The part of a report that comes from the actors' reports: ending, counts, ledger, staleness and waits.
///
/// The ledger is audited (audit()). Where its two ends contradict each other, the run has failed,
/// and `why` names the worker and the shard.
///
/// `written` counts the updates of the shared block in hogwild; none if the run had no such block.
training_report report_of(const run_outcome& outcome, std::optional<std::uint64_t> written = {});

/// The same of a run that goes on, from copies of its actors' books (run_outcome::ending::running). Steps and
/// samples are at least those that the progress display was told. Each gradient counts once: produced =
/// applied + merged + discarded + lost + those under way, or not told of yet. The waits of workers are absent
/// until every worker has told its own.
training_report report_so_far(const run_outcome& books, const training_progress& told,
                              std::optional<std::uint64_t> written = {});

/// The progress of a run at its end; an earlier figure may be some steps old.
training_progress final_progress(const run_outcome& outcome, instant elapsed);

/// The timeline of a run, as far as its actors recorded one.
run_trace trace_of(const run_outcome& outcome, instant started, instant ended);

/// The weights that the shards reported, float32[size]; nothing if a shard and its part of them are lost.
std::optional<std::vector<float>> joined_weights(const run_outcome& outcome, const parameter_layout& layout);

/// The mean of the cure's factor over all gradients; none if there was no gradient, or the cure has no
/// factor.
std::optional<double> mean_factor(const cure& c, const staleness_histogram& gaps);

/// "shard 0 holds worker 1 after step 17, ..., for 2.1 s"
std::string in_words(const wait_named& w);

} // namespace mailgrad
