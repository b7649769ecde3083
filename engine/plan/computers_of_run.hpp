#pragma once

#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/engine/plan/worker_computers.hpp>

#include <string>
#include <vector>

namespace mailgrad {

/// What the workers of a run compute on, if they are in this process.
std::vector<worker_computer> computers_of(const training_options& o);

/// "NVIDIA H100", or what each shard is updated by, if they differ: "the host, NVIDIA H100".
std::string updaters_in_words(const training_options& o);

} // namespace mailgrad
