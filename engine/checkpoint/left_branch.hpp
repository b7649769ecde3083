#pragma once

#include <mailgrad/engine/checkpoint/best_weights.hpp>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

namespace mailgrad {

/// What lay in the folder of a run that goes on from an older checkpoint there, and came after it. A resume
/// of the folder would otherwise go back to it.
struct left_branch {
  std::filesystem::path folder{}; ///< where it lies now; empty: nothing came after the checkpoint
  std::size_t checkpoints = 0;
  bool goes_on = false; ///< one of these is whole, so a run can go on from there
  bool best = false;    ///< weights that were the best in a test after the checkpoint
};

/// Moves the checkpoints that came after `resumed`, and the best weights of tests that are not of its
/// history, into a folder of their own beside it. The best weights before them come along, since a run that
/// goes on from there stands on them, too. The folder must be locked. All of that happens or nothing, also if
/// the process ends meanwhile (set_aside). `after_each` is called after each change on the disk.
/// Errors  file_error if a file cannot be moved.
left_branch leave_later_branch(const std::filesystem::path& resumed, const tested_history& history,
                               const std::function<void()>& after_each = {});

/// Completes that where a process has ended meanwhile. The folder must be locked.
/// Errors  file_error if a file cannot be moved.
left_branch complete_left_branch(const std::filesystem::path& folder);

/// Keeps the recording of the run that is left under another name, before a run that goes on from `resumed`
/// writes over it: a second name of the same file, or a copy. Returns "set aside in run.rec.left-after-500:
/// the recording of the run that is left"; empty if no checkpoint came after `resumed`, or there is no file.
/// Errors  file_error if it cannot be kept.
std::string leave_recording(const std::filesystem::path& resumed, const tested_history& history,
                            const std::filesystem::path& recording);

/// "set aside in runs/left-after-0000000500: 2 later checkpoints and the best weights of a later test; ...";
/// empty if nothing was.
std::string in_words(const left_branch& left);

} // namespace mailgrad
