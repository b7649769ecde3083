#pragma once

#include <mailgrad/engine/checkpoint/checkpoint_file.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <memory>
#include <string>

namespace mailgrad {

/// What the run of a checkpoint had recorded before that, for one that goes on from there and records into
/// `path`. It is looked for where that run recorded, and at `path`, under all names that a run that was
/// killed can have left.
///
/// Errors  recording_error in one line: that run was not recorded, a worker of it was lost, or no file has
///         all of it.
std::shared_ptr<const recording> recorded_before(const checkpoint& from, const std::string& path);

} // namespace mailgrad
