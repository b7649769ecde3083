#pragma once

#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mailgrad {

/// The number of workers that a run begins with.
std::uint32_t workers_of(const training_options& o);

/// The number of workers that may take part, those that join later included.
std::uint32_t slots_of(const training_options& o);

/// The devices of one worker; several if its model spans them. One that joins later has those of another.
std::vector<device> devices_of(const training_options& o, std::uint32_t worker);

/// Where a shard keeps its weights (training_options::parameters).
device place_of_shard(const training_options& o, std::uint32_t shard);

inline bool is_same_gpu(device a, device b) noexcept {
  return a.kind == device_kind::cuda && b.kind == device_kind::cuda && a.index == b.index;
}

/// Whether any shard is on a GPU.
bool has_shard_on_gpu(const training_options& o);

/// How many steps workers begin before the one under way has ended, if the options do not say: none under a
/// policy that counts when gradients come, since they come from who runs ahead before they are computed.
std::uint64_t steps_ahead(const training_options& o, const std::vector<scheduled_policy>& policies);

/// The number of threads for `devices`. A core has one, however many workers it computes. A stream of a GPU
/// has one that copies for it, and one more updates weights meanwhile, as far as this machine has cores.
std::size_t thread_count(const std::vector<device>& devices);

/// As parse_device(), but the line of the refusal also says what this machine has.
device named_device(std::string_view text);

/// Refuses a device that this machine does not have.
/// Errors  device_error (no_such_device), one line with what there is instead, or why there is no GPU.
void require_here(device d);

/// Refuses GPUs among the devices of a worker if they cannot train this model: every operation of the model
/// and of its gradients that is placed on a GPU needs a kernel there.
/// Errors  graph_error with the operation and its line.
void require_trained_by(const std::vector<device>& devices, const model_function& model,
                        const model_request& request, const parameter_layout& layout);

/// Refuses a model that the devices of its worker cannot compute as it is placed.
/// Errors  graph_error with the operation, its line and what to do: the worker lacks a device of the
///         placement; with micro-batches, a stage waits for itself; under hogwild, two devices read one
///         variable.
void require_placed(const model_function& model, const model_request& request, std::size_t micro_batches,
                    const std::vector<scheduled_policy>& policies);

} // namespace mailgrad
