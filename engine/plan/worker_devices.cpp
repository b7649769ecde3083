#include <mailgrad/engine/plan/worker_devices.hpp>

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/training_fetches.hpp>
#include <mailgrad/engine/worker/stage_program.hpp>
#include <mailgrad/graph/placement/partition.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/graph/program/program_plan.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/usable_cores.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

/// "cpu:0, cpu:1, cuda:0", or with why there is no card.
std::string in_words(const cuda::runtime::found_cards& found) {
  std::string present = available_in_words();
  for (std::uint32_t i = 0; i < found.cards.size(); ++i)
    present += ", " + to_string(device{device_kind::cuda, i});
  return found.cards.empty() ? present + ", and no card: " + found.why_none : present;
}

} // namespace

std::uint32_t workers_of(const training_options& o) {
  return o.workers > 0 ? o.workers : static_cast<std::uint32_t>(o.devices.size());
}

std::uint32_t seats_of(const training_options& o) { return o.seats > 0 ? o.seats : workers_of(o); }

std::vector<device> devices_of(const training_options& o, std::uint32_t worker) {
  const std::size_t each = o.devices.size() / workers_of(o);
  const auto first = o.devices.begin() + static_cast<std::ptrdiff_t>(each * (worker % workers_of(o)));
  return {first, first + static_cast<std::ptrdiff_t>(each)};
}

std::size_t thread_count(const std::vector<device>& devices) {
  std::set<std::uint32_t> cores;
  std::set<std::pair<std::uint32_t, std::uint32_t>> lanes;
  for (const device d : devices) {
    if (d.kind == device_kind::cpu)
      cores.insert(d.index);
    else
      lanes.emplace(d.index, d.lane);
  }
  if (lanes.empty()) return std::max<std::size_t>(1, cores.size());
  return std::max(cores.size(), std::min(cores_of_process().count(), cores.size() + lanes.size() + 1));
}

void require_worker_devices(const training_options& o) {
  if (o.devices.empty()) throw std::invalid_argument("--devices: name at least one, such as cpu:0");
  const std::uint32_t workers = workers_of(o);
  if (o.devices.size() % workers != 0)
    throw std::invalid_argument(fmt::format(
        "workers: {} devices cannot be shared out to {} workers; name so many devices, or a multiple",
        o.devices.size(), workers));
  if (seats_of(o) < workers)
    throw std::invalid_argument(
        fmt::format("--seats: {} for {} workers; give at least as many", o.seats, workers));
  for (std::uint32_t w = 0; w < workers; ++w) {
    const std::vector<device> own = devices_of(o, w);
    for (auto d = own.begin(); d != own.end(); ++d)
      if (std::find(own.begin(), d, *d) != d)
        throw std::invalid_argument(fmt::format(
            "--devices: worker {} would have {} twice; a model spans different devices", w, to_string(*d)));
  }
  if (o.micro_batches == 0) throw std::invalid_argument("--micro-batches: 0; at least 1 is needed");
  if (o.micro_batches > 1 && workers == o.devices.size())
    throw std::invalid_argument(
        "--micro-batches: each worker has one device, which computes its batch at one go; give "
        "workers several devices, or leave it out");
}

device named_device(std::string_view text) {
  try {
    return parse_device(text);
  } catch (const device_error& e) {
    throw device_error(world_errc::no_such_device, fmt::format("{}; this machine has {}", e.what(),
                                                               in_words(cuda::runtime::find_cards())));
  }
}

void require_here(device d) {
  const std::vector<device> cores = available_devices();
  if (std::ranges::find(cores, d) != cores.end()) return;
  const auto found = cuda::runtime::find_cards();
  const bool is_card = d.kind == device_kind::cuda && d.index < found.cards.size();
  if (!is_card)
    throw device_error(
        world_errc::no_such_device,
        fmt::format("device {} is not available; this machine has {}", to_string(d), in_words(found)));
  const cuda::runtime::card& card = found.cards[d.index];
  if (!card.why_unknown.empty())
    throw device_error(world_errc::no_such_device,
                       fmt::format("device {} does not answer: {}", to_string(d), card.why_unknown));
  if (card.is_too_old())
    throw device_error(world_errc::no_such_device,
                       fmt::format("device {} has compute capability {}.{}, and at least {}.0 is needed",
                                   to_string(d), card.major, card.minor, card.least_major));
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
