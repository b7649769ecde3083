#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/engine/worker/stage_program.hpp>
#include <mailgrad/graph/program/program_plan.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>

#include <fmt/format.h>

#include <set>

namespace mailgrad {

namespace {

/// "cpu:0, cpu:1, cuda:0", or with why there is no GPU.
std::string in_words(const cuda::runtime::found_gpus& found) {
  std::string present = format_available();
  for (std::uint32_t i = 0; i < found.gpus.size(); ++i)
    present += ", " + to_string(device{device_kind::cuda, i});
  return found.gpus.empty() ? present + ", and no GPU: " + found.why_none : present;
}

} // namespace

std::uint32_t workers_of(const training_options& o) {
  return o.workers > 0 ? o.workers : static_cast<std::uint32_t>(o.devices.size());
}

std::uint32_t slots_of(const training_options& o) { return o.slots > 0 ? o.slots : workers_of(o); }

std::vector<device> devices_of(const training_options& o, std::uint32_t worker) {
  const std::size_t each = o.devices.size() / workers_of(o);
  const auto first = o.devices.begin() + static_cast<std::ptrdiff_t>(each * (worker % workers_of(o)));
  return {first, first + static_cast<std::ptrdiff_t>(each)};
}

device place_of_shard(const training_options& o, std::uint32_t shard) {
  return o.parameters.empty() ? device{} : o.parameters[shard % o.parameters.size()];
}

bool has_shard_on_gpu(const training_options& o) {
  return std::ranges::find(o.parameters, device_kind::cuda, &device::kind) != o.parameters.end();
}

/// The policy auto looks at waits, which a worker that runs ahead has on its GPU.
std::uint64_t steps_ahead(const training_options& o, const std::vector<scheduled_policy>& policies) {
  if (o.run_ahead) return *o.run_ahead;
  const auto reads_arrival = [](const scheduled_policy& p) { return p.policy.traits().reads_arrival; };
  return is_automatic(o.policy) || std::ranges::any_of(policies, reads_arrival) ? 0 : most_run_ahead;
}

std::size_t thread_count(const std::vector<device>& devices) {
  std::set<std::uint32_t> cores;
  std::set<std::pair<std::uint32_t, std::uint32_t>> streams;
  for (const device d : devices) {
    if (d.kind == device_kind::cpu)
      cores.insert(d.index);
    else
      streams.emplace(d.index, d.stream);
  }
  if (streams.empty()) return std::max<std::size_t>(1, cores.size());
  return std::max(cores.size(), std::min(cores_of_process().count(), cores.size() + streams.size() + 1));
}

device named_device(std::string_view text) {
  try {
    return parse_device(text);
  } catch (const device_error& e) {
    throw device_error(world_errc::no_such_device, fmt::format("{}; this machine has {}", e.what(),
                                                               in_words(cuda::runtime::find_gpus())));
  }
}

void require_here(device d) {
  const std::vector<device> cores = available_devices();
  if (std::ranges::find(cores, d) != cores.end()) return;
  const auto found = cuda::runtime::find_gpus();
  const bool is_gpu = d.kind == device_kind::cuda && d.index < found.gpus.size();
  if (!is_gpu)
    throw device_error(
        world_errc::no_such_device,
        fmt::format("device {} is not available; this machine has {}", to_string(d), in_words(found)));
  const cuda::runtime::gpu& gpu = found.gpus[d.index];
  if (!gpu.why_unknown.empty())
    throw device_error(world_errc::no_such_device,
                       fmt::format("device {} does not answer: {}", to_string(d), gpu.why_unknown));
  if (gpu.is_too_old())
    throw device_error(world_errc::no_such_device,
                       fmt::format("device {} has compute capability {}.{}, and at least {}.0 is needed",
                                   to_string(d), gpu.major, gpu.minor, gpu.least_major));
}

void require_trained_by(const std::vector<device>& devices, const model_function& model,
                        const model_request& request, const parameter_layout& layout) {
  if (std::ranges::find(devices, device_kind::cuda, &device::kind) == devices.end()) return;
  graph g;
  const model_outputs outputs = build_fitting(model, g, request);
  const training_fetches list = loss_and_gradients(g, outputs, layout, request);
  const placement places(g, devices.front());
  for (const segment& s : cut_into_segments(g, places, wanted_values(list))) {
    if (s.where.kind != device_kind::cuda) continue;
    std::vector<value> fetches = s.exports;
    for (const std::size_t i : s.fetches) fetches.push_back(list.fetches[i]);
    plan_program(g, fetches, s.imports, device_kind::cuda, product_precision::float32, s.exports.size());
  }
}

void require_placed(const model_function& model, const model_request& request, std::size_t micro_batches,
                    const std::vector<scheduled_policy>& policies) {
  graph g;
  const model_outputs outputs = build_fitting(model, g, request);
  const placement places(g, request.devices.front());
  require_devices(g, places, request.devices);
  if (micro_batches > 1) require_one_way(g, places, outputs.loss);
  if (has_hogwild(policies)) require_variables_apart(g, places, outputs.loss);
}

} // namespace mailgrad
