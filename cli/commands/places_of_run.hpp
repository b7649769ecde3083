#pragma once

#include <mailgrad/cli/commands/train_words.hpp>
#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/cli/output/failure_line.hpp>

#include <functional>
#include <string>

namespace mailgrad {

/// The words that decide how much memory of cards a run takes.
///
/// Errors  device_error for a word that names no device.
memory_needs memory_needs_of(const train_words& w, bool is_replay);

using way_on_function = std::function<std::string(const std::string& options)>;

/// Refuses to repeat the run of a recording, or to go on with that of a checkpoint, if it asks for devices
/// that this machine lacks. `given` are the options of now: devices among them are left to who reads these.
/// `whose` is "recording 'run.rec'", and `way_on` says what would do, of options such as
/// "--parameters and --devices" that ask for what is missing.
///
/// Errors  device_error in one line: what `whose` asks for, what is there instead, and the way on.
void require_asked_places(const train_words& w, const option_words& given, const std::string& whose,
                          const way_on_function& way_on);

/// "on cores it goes on with --devices cpu:0", for a run that asked for cards.
///
/// Errors  device_error for a word that names no device.
std::string way_on_with_cores(const train_words& w);

} // namespace mailgrad
