#pragma once

#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <vector>

namespace mailgrad {

/// Where a shard keeps its weights (training_options::parameters).
device place_of_shard(const training_options& o, std::uint32_t shard);

inline bool is_same_card(device a, device b) noexcept {
  return a.kind == device_kind::cuda && b.kind == device_kind::cuda && a.index == b.index;
}

/// Whether any shard is on a card.
bool has_shard_on_card(const training_options& o);

/// Refuses weights on a card (training_options::parameters) for a run that needs them on the host.
///
/// Errors  std::invalid_argument in one line that says what of the run needs them there; device_error: there
///         is no such card.
void require_parameter_place(const training_options& o, const std::vector<scheduled_policy>& policies,
                             const cure_spec& cure);

/// How many steps workers begin before the one under way has ended, if the options do not say: none under a
/// policy that counts when gradients come, since they come from who runs ahead before they are computed.
std::uint64_t steps_ahead(const training_options& o, const std::vector<scheduled_policy>& policies);

/// Refuses steps ahead (training_options::run_ahead) of a run in which no worker can begin any. A replay may
/// ask for them wherever its workers are, since it has the order of its recording.
///
/// Errors  std::invalid_argument in one line that says what keeps workers from it.
void require_run_ahead(const training_options& o, const std::vector<scheduled_policy>& policies);

/// Refuses products in TF32 or bfloat16 (training_options::precision) for a worker on a core.
///
/// Errors  std::invalid_argument in one line that names the device.
void require_precision(const std::vector<device>& devices, product_precision p);

/// Refuses weights on a card for a model with tables, if some weights or workers are elsewhere, or something
/// of the run reads the rows of gradients on the host.
///
/// Errors  std::invalid_argument in one line, which names the first table.
void require_parameter_place(const training_options& o, const std::vector<scheduled_policy>& policies,
                             const parameter_layout& layout);

} // namespace mailgrad
