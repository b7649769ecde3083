#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <string>

namespace mailgrad {

/// "12 written in 0.31 s, the last after step 6000: runs/checkpoint-0000006000.safetensors"
std::string checkpoints_in_words(const checkpoint_account& c);

/// How to train the rest of a run that ended before all its steps: "goes on by    mailgrad train --resume
/// runs". `command` trains such runs. A run that was trained enough would end at once, so it takes another
/// option as well. A run that has kept nothing itself goes on where it began.
std::string way_on_in_words(const training_report& r, const std::string& command);

} // namespace mailgrad
