#pragma once

#include <mailgrad/actors/coordinator.hpp>
#include <mailgrad/actors/run_trace.hpp>
#include <mailgrad/actors/training_report.hpp>

#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/cures/cure.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// The part of a report that the actors' books hold: ending, counts, ledger, staleness and waits.
///
/// Every shard keeps a ledger of its own, and each balances; the report shows the one that lost most, which
/// differs from the others only when a worker died between two pushes.
///
/// `written` counts the updates of the shared block in hogwild, where no shard knows what a worker that died
/// had done.
training_report report_of(const run_outcome& outcome, std::optional<std::uint64_t> written = {});

/// The timeline of a run, as far as its actors recorded one.
run_trace trace_of(const run_outcome& outcome, instant started, instant ended);

/// The weights that the shards reported, float32[size]; nothing if a shard and its part of them are lost.
std::optional<std::vector<float>> joined_weights(const run_outcome& outcome, const parameter_layout& layout);

/// What a gradient counted with on average; nothing if there was none, or the cure has no such factor.
std::optional<double> mean_factor(const cure& c, const staleness_histogram& gaps);

/// "shard 0 holds worker 1 after step 17, ..., for 2.1 s"
std::string in_words(const wait_named& w, instant now);

} // namespace mailgrad
