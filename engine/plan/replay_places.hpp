#pragma once

#include <mailgrad/engine/plan/fact_differences.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <string>

namespace mailgrad {

/// What to say behind the refusal of a replay whose workers or weights are on devices that round otherwise
/// than those of the recorded run: the options of the tool that would do on this machine. `here` are the
/// facts of the replay.
///
/// Returns  "; leave --devices out", if those of the recorded run would do, or else, as "; replay it with
///          --devices cuda:0 and --parameters cuda:0", others that round the same; the card that this machine
///          lacks; or "", if devices are not to blame.
std::string places_that_would_do(const recording& r, const run_facts& here);

} // namespace mailgrad
