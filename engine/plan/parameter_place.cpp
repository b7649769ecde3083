#include <mailgrad/engine/plan/parameter_place.hpp>

#include <mailgrad/engine/plan/worker_devices.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

[[noreturn]] void refuse(const training_options& o, const std::string& why) {
  throw std::invalid_argument(fmt::format("parameters: {}: {}", to_string(*o.parameters), why));
}

/// Every worker computes in a lane of the card that has the weights.
void require_workers_there(const training_options& o) {
  if (o.parameters->kind != device_kind::cuda)
    refuse(o, "name a card, or the host, where they lie without this option");
  if (o.parameters->lane != 0) refuse(o, "name the card alone; each shard has a lane of its own there");
  require_here(*o.parameters);
  const auto away = std::ranges::find_if(o.devices, [&](const device& d) {
    return d.kind != device_kind::cuda || d.index != o.parameters->index;
  });
  if (away != o.devices.end())
    refuse(o, fmt::format(
                  "a worker on {} cannot reach weights there; name lanes of that card alone in the devices",
                  to_string(*away)));
}

} // namespace

void require_parameter_place(const training_options& o, const std::vector<scheduled_policy>& policies,
                             const cure_spec& cure) {
  if (o.run_ahead > most_run_ahead)
    throw std::invalid_argument(fmt::format(
        "run ahead: {} steps; at most {} can be begun while one is under way", o.run_ahead, most_run_ahead));
  if (!o.parameters) return;
  require_workers_there(o);
  if (has_hogwild(policies)) refuse(o, "under hogwild the weights are a block of the host; take async");
  if (o.parameter_actor)
    refuse(o, fmt::format("parameter actor '{}' runs on the host; leave one of both out",
                          o.parameter_actor->name));
  if (std::holds_alternative<own_rule>(o.optimizer.rule))
    refuse(o, fmt::format("rule '{}' is a user's, which runs on the host; leave one of both out",
                          name(o.optimizer)));
  if (cure.is_own())
    refuse(o, fmt::format("cure '{}' is a user's, which runs on the host; leave one of both out", o.cure));
}

void require_precision(const training_options& o) {
  if (o.precision == product_precision::float32) return;
  const auto core = std::ranges::find(o.devices, device_kind::cpu, &device::kind);
  if (core != o.devices.end())
    throw std::invalid_argument(
        fmt::format("precision: {}: {} computes in float32 alone; name lanes of cards as the devices",
                    name(o.precision), to_string(*core)));
}

void require_parameter_place(const training_options& o, const parameter_layout& layout) {
  if (!o.parameters) return;
  const auto table = std::ranges::find(layout.variables(), true, &placed_variable::sparse);
  if (table != layout.variables().end())
    refuse(o, fmt::format("the gradient of table '{}' comes in rows, which are updated on the host",
                          table->name));
}

} // namespace mailgrad
