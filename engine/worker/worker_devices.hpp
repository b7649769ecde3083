#pragma once

#include <mailgrad/engine/training_options.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <cstdint>
#include <vector>

namespace mailgrad {

/// Workers of a run.
std::uint32_t workers_of(const training_options& o);

/// Devices of one worker; several if its model spans them.
std::vector<device> devices_of(const training_options& o, std::uint32_t worker);

/// Refuses devices that cannot be shared out.
///
/// Errors  std::invalid_argument: none, too few or no multiple of the workers, one that a worker has twice,
///         micro-batches of workers that span nothing.
void require_worker_devices(const training_options& o);

/// Refuses a model that its worker's devices cannot compute as it is placed.
///
/// Errors  graph_error, naming operation, line and what would be right: a device that the worker does not
///         have; with micro-batches, a piece that waits for itself; under hogwild, a variable that two
///         devices read.
void require_placed(const model_function& model, const model_request& request, std::size_t micro_batches,
                    const std::vector<scheduled_policy>& policies);

} // namespace mailgrad
