#pragma once

#include <mailgrad/actors/coordinator.hpp>
#include <mailgrad/actors/training_report.hpp>

#include <string>

namespace mailgrad {

/// The part of a report that the actors' books hold: ending, counts, ledger, staleness and waits.
///
/// Every shard keeps a ledger of its own, and each balances; the report shows the one that lost most, which
/// differs from the others only when a worker died between two pushes.
training_report report_of(const run_outcome& outcome);

/// "shard 0 holds worker 1 after step 17, ..., for 2.1 s"
std::string in_words(const wait_named& w, instant now);

} // namespace mailgrad
