#pragma once

#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/engine/record/recording.hpp>

namespace mailgrad {

/// The value of a fact as its option takes it, without quotes for a shell, for messages:
/// "adam:beta1=0.9,beta2=0.999,epsilon=1e-8" for "adam 0.90000000000000002 0.999 1e-08". Every number is as
/// short as reads back the same. Settings whose names only a plug-in knows stand without them.
std::string format_fact(std::string_view fact, const std::string& value);

/// What a run is, by name and in words; facts_of() collects them.
using run_facts = std::vector<std::pair<std::string, std::string>>;

/// The facts that give the training samples and the model by their SHA-256, and the weights to begin with.
inline constexpr std::string_view samples_fact = "SHA-256 of the training samples";
inline constexpr std::string_view model_fact = "SHA-256 of the model";
/// The samples in a mini-batch. The shapes in a model depend on it, and so does the SHA-256.
inline constexpr std::string_view batch_fact = "batch";
/// Told only of runs with workers on GPUs: what each worker computes on.
inline constexpr std::string_view computers_fact = "arithmetic of workers";
/// Told only of runs with weights on a GPU: what computes the updates.
inline constexpr std::string_view updaters_fact = "arithmetic of shards";
/// Told only of runs with workers on GPUs: the version of what multiplies there.
inline constexpr std::string_view products_fact = "version of products";
/// Told only of runs whose products are not in float32.
inline constexpr std::string_view precision_fact = "precision of products";
inline constexpr std::string_view first_weights_fact = "first weights";

/// What the last of these is if none were given. Older files do not tell it.
inline constexpr const char* drawn_weights = "drawn by the seed";

/// The names of the model and the data, as further facts; those that are empty are left out. They refuse no
/// run, since files may have been moved. They stand in messages beside the digests.
run_facts names_of(const data_split& data, const training_options& o);

bool tells(const run_facts& facts, std::string_view what);

/// The value of a fact in a file of an earlier run, in words if it does not tell.
std::string reported_fact(const run_facts& told, std::string_view what);

/// How this run differs from the one that a file tells of, in one line: "the model was mlp (SHA-256 ab...),
/// and is lenet (SHA-256 cd...) here; --seed was 1, and is 2 here". Empty if it does not. `here` are the
/// facts of this run, with its names; those of `free` may differ.
std::string differences(const run_facts& told, const run_facts& here,
                        std::span<const std::string_view> free = {});

/// Behind the refusal of a replay whose devices round otherwise than the recorded ones: the options of the
/// tool that would do on this machine. `here` are the facts of the replay.
/// Returns  "; leave --devices out", if those of the recorded run would do; else others, as "; replay it with
///          --devices cuda:0"; the GPU that this machine lacks; or "", if devices are not to blame.
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

/// Requires, before a plug-in's code runs, that it is the recorded one, by the SHA-256 of the file.
/// Returns  the sum.
/// Errors   recording_error: the recorded run had none, or another; std::system_error if it is unreadable.
std::string require_recorded_plugin(const recording& r, const std::string& file);

/// `facts` are those of the present run, and its names.
/// Errors  recording_error in one line: the number of workers or of shards, or else each fact that differs.
void require_same_run(const recording& r, const training_options& o, const run_facts& facts);

} // namespace mailgrad
