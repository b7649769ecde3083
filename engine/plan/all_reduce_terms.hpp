#pragma once

#include <mailgrad/engine/plan/training_options.hpp>

namespace mailgrad {

/// What a run needs whose workers add their gradients up before a shard sees them
/// (training_options::all_reduce): one policy, sync, under which every update takes a gradient of every
/// worker, and nothing that looks at the gradient of one worker.
///
/// Errors  std::invalid_argument in one line that names the option and says why it cannot be. Nothing if the
///         options do not ask for sums.
void require_sums_can_be(const training_options& o);

/// That such a run may switch its policy while it goes on.
///
/// Errors  std::invalid_argument if the options ask for sums: a worker that paused for the switch would hold
///         up a sum, and who waits for the sum does not pause.
void require_switch_can_be(const training_options& o);

} // namespace mailgrad
