#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/plan/training_options.hpp>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad {

/// The value of a fact as its option takes it, without quotes for a shell, for messages:
/// "adam:beta1=0.9,beta2=0.999,epsilon=1e-8" for "adam 0.90000000000000002 0.999 1e-08". Every number is as
/// short as reads back the same. Settings whose names only a plug-in knows stand without them.
std::string fact_as_typed(std::string_view fact, const std::string& value);

/// What a run is, by name and in words; facts_of() in run_fingerprint.hpp collects them.
using run_facts = std::vector<std::pair<std::string, std::string>>;

/// The facts that give the training samples and the model by their SHA-256, and the weights to begin with.
inline constexpr std::string_view samples_fact = "SHA-256 of the training samples";
inline constexpr std::string_view model_fact = "SHA-256 of the model";
/// The samples in a mini-batch. The shapes in a model depend on it, and so does the SHA-256.
inline constexpr std::string_view batch_fact = "batch";
/// Told only of runs with workers on cards: what each worker computes on.
inline constexpr std::string_view computers_fact = "arithmetic of workers";
/// Told only of runs with weights on a card: what computes the updates.
inline constexpr std::string_view updaters_fact = "arithmetic of shards";
/// Told only of runs with workers on cards: the version of what multiplies there.
inline constexpr std::string_view products_fact = "version of products";
/// Told only of runs whose products are not in float32.
inline constexpr std::string_view precision_fact = "precision of products";
inline constexpr std::string_view first_weights_fact = "first weights";

/// What the last of these is if none were given. Older files do not tell it, since no run could begin with
/// given ones.
inline constexpr const char* drawn_weights = "drawn by the seed";

/// The names of the model and the data, as further facts; those that are empty are left out. They refuse no
/// run, since files may have been moved. They stand in messages beside the digests.
run_facts names_of(const data_split& data, const training_options& o);

bool tells(const run_facts& facts, std::string_view what);

/// The value of a fact in a file of an earlier run, in words if it does not tell.
std::string told_fact(const run_facts& told, std::string_view what);

/// How this run differs from the one that a file tells of, in one line: "the model was mlp (SHA-256 ab...),
/// and is lenet (SHA-256 cd...) here; --seed was 1, and is 2 here". Empty if it does not. `here` are the
/// facts of this run, with its names; those of `free` may differ.
std::string differences(const run_facts& told, const run_facts& here,
                        std::span<const std::string_view> free = {});

} // namespace mailgrad
