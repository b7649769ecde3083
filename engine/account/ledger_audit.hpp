#pragma once

#include <mailgrad/engine/account/gradient_ledger.hpp>
#include <mailgrad/engine/account/run_outcome.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// The ledger of a run, and where its two ends contradict each other.
struct audited_ledger {
  gradient_ledger ledger;
  std::vector<std::string> contradictions; ///< one line each; empty if every gradient is accounted for
};

/// Counts the gradients of a run at two ends that do not know of each other, and compares them.
///
/// Devices count what they produced. Shards, and under hogwild the shared block, count what they took. Every
/// shard has a ledger of its own; the run gets the one that does not balance, if there is one, or else the
/// one that lost most. The ledgers differ only if a worker died between two pushes.
///
/// A gradient may be lost with its worker, with a shard, or in a batch that was never complete. Whatever else
/// is missing, or was taken more than once, is a contradiction: then the ledger does not balance.
///
/// `written` counts the updates of the shared block in hogwild; none if the run had no such block. No shard
/// knows what a lost worker wrote there, so its updates count as produced by it.
audited_ledger audit(const run_outcome& outcome, std::optional<std::uint64_t> written);

} // namespace mailgrad
