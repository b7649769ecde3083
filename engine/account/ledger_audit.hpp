#pragma once

#include <mailgrad/engine/account/gradient_ledger.hpp>
#include <mailgrad/engine/account/run_outcome.hpp>

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

} // namespace mailgrad
