#pragma once

#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

namespace mailgrad {

std::uint32_t workers_of(const training_options& o);

/// The number of workers that may take part, those that join later included.
std::uint32_t slots_of(const training_options& o);

/// The devices of one worker; several if its model spans them. One that joins later has those of another.
std::vector<device> devices_of(const training_options& o, std::uint32_t worker);

device place_of_shard(const training_options& o, std::uint32_t shard);

inline bool is_same_gpu(device a, device b) noexcept {
  return a.kind == device_kind::cuda && b.kind == device_kind::cuda && a.index == b.index;
}

bool has_shard_on_gpu(const training_options& o);

/// How many steps workers begin before the one under way has ended, if the options do not say: none under a
/// policy that counts when gradients come.
std::uint64_t steps_ahead(const training_options& o, const std::vector<scheduled_policy>& policies);

/// The number of threads for `devices`: one for each core and stream of a GPU, and one that updates weights.
std::size_t thread_count(const std::vector<device>& devices);

/// As parse_device(), but the line of the refusal also says what this machine has.
device named_device(std::string_view text);

/// Refuses a device that this machine does not have.
/// Errors  device_error (no_such_device), one line with what there is instead, or why there is no GPU.
void require_here(device d);

/// Refuses GPUs that cannot train this model: each operation placed there, also of gradients, needs a kernel.
/// Errors  graph_error with the operation and its line.
void require_trained_by(const std::vector<device>& devices, const model_function& model,
                        const model_request& request, const parameter_layout& layout);

/// Refuses a model that the devices of its worker cannot compute as it is placed.
/// Errors  graph_error with the operation, its line and what to do: the worker lacks a device; with
///         micro-batches, a stage waits for itself; under hogwild, two devices read one variable.
void require_placed(const model_function& model, const model_request& request, std::size_t micro_batches,
                    const std::vector<scheduled_policy>& policies);

} // namespace mailgrad
