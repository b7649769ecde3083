#pragma once

#include <mailgrad/engine/checkpoint/kept_run.hpp>
#include <mailgrad/engine/plan/fact_differences.hpp>

namespace mailgrad {

/// Names the plug-ins of a checkpoint by the paths of this run, whose facts are `here`: it may go on in
/// another folder than it began in. Two paths are taken for one plug-in if their last parts are the same; of
/// several such, those with the same SHA-256. Each is taken once. The SHA-256 of all are compared afterwards,
/// as facts are.
void name_plugins_as_here(const run_facts& here, checkpoint_card& card, kept_schedule& schedule);

} // namespace mailgrad
