#pragma once

#include <mailgrad/engine/plan/fact_differences.hpp>
#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/engine/plan/worker_computers.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// What to say behind the refusal of a replay whose workers or weights are on devices that round otherwise
/// than those of the recorded run: the options of the tool that would do on this machine. `here` are the
/// facts of the replay.
///
/// Returns  "; leave --devices out", if those of the recorded run would do, or else, as "; replay it with
///          --devices cuda:0 and --parameters cuda:0", others that round the same; the card that this machine
///          lacks; or "", if devices are not to blame.
std::string places_that_would_do(const recording& r, const run_facts& here);

/// Everything that determines a run except the order in which its shards take gradients: model, data,
/// options, library and arithmetic. Large objects are given by their SHA-256.
run_facts facts_of(const model_function& model, const model_request& request, const data_split& data,
                   const training_options& o);

/// The file of the plug-in whose SHA-256 such a fact tells; empty for another fact.
std::string plugin_of_fact(std::string_view fact);

/// Of these, the SHA-256 of the model, or of those that the workers build if they differ.
std::string model_digest(const model_function& model, const model_request& request,
                         const training_options& o);

/// Requires, before a plug-in's code runs, that it is the recorded one. Plug-ins are compared by the SHA-256
/// of their files.
///
/// Returns  the sum.
/// Errors   recording_error: the recorded run had no such plug-in, or one with other bytes; std::system_error
///          if the file cannot be read.
std::string require_recorded_plugin(const recording& r, const std::string& file);

/// `facts` are those of the present run, and its names.
///
/// Errors  recording_error in one line with what was recorded and found: the number of workers or of shards,
///         or else each fact that differs.
void require_same_run(const recording& r, const training_options& o, const run_facts& facts);

} // namespace mailgrad
