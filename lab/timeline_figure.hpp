#pragma once

#include <mailgrad/engine/account/run_trace.hpp>
#include <mailgrad/lab/figure.hpp>

#include <cstdint>
#include <string>

namespace mailgrad::lab {

/// What each worker of a run did until a moment, a row for each: bars where it computed, lines where it
/// waited and for what, and marks where a gradient of it was discarded.
///
/// The run has had training_options::trace_events. What its workers did beside that takes no time in a run on
/// a virtual clock, and is not drawn.
figure timeline_figure(const run_trace& trace, std::uint32_t workers, double until_seconds, std::string name,
                       std::string title);

} // namespace mailgrad::lab
