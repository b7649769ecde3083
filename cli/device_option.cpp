#include <mailgrad/cli/device_option.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/options/spelling.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <stdexcept>
#include <utility>

namespace mailgrad {

std::uint32_t device_count(const std::string& list) {
  return static_cast<std::uint32_t>(std::ranges::count(list, ',')) + 1;
}

namespace {

device device_here(const std::string& word) {
  const device d = named_device(word);
  require_here(d);
  return d;
}

device place_here(const std::string& word) {
  if (word == "host") return {};
  const std::string without_stream = word.substr(0, word.find('/'));
  device d;
  try {
    d = named_device(without_stream);
  } catch (const device_error& e) {
    throw device_error(world_errc::no_such_device,
                       fmt::format("--parameters takes host and GPUs; {}", e.what()));
  }
  if (word != without_stream)
    throw device_error(
        world_errc::no_such_device,
        fmt::format("--parameters takes host and GPUs, and no streams; write {}", without_stream));
  require_here(d);
  return d;
}

} // namespace

std::vector<std::string> split_devices(std::string list) {
  std::erase(list, ' ');
  const auto words = words_between(list, ',');
  return {words.begin(), words.end()};
}

std::vector<device> read_devices(const std::string& list) {
  std::vector<device> devices;
  for (const std::string& word : split_devices(list)) devices.push_back(device_here(word));
  return devices;
}

std::vector<device> read_places(const std::string& list) {
  std::vector<device> places;
  for (const std::string& word : split_devices(list)) places.push_back(place_here(word));
  return places;
}

bool names_gpu(const std::string& list) {
  return std::ranges::any_of(
      split_devices(list), [](const std::string& word) { return word.substr(0, word.find(':')) == "cuda"; });
}

std::string names_of(std::span<const device> devices, const char* between) {
  const auto name = [](device d) { return to_string(d); };
  return fmt::format("{}", fmt::join(devices | std::views::transform(name), between));
}

void require_several(const spanning_args& w, std::size_t devices_of_a_worker, const std::string& option) {
  if (devices_of_a_worker > 1) return;
  throw std::invalid_argument("--" + w.name() + ": each worker has one device; name more by " + option);
}

model_function spanning(model_function model, const spanning_args& w) {
  if (w.replicate) return replicated(std::move(model));
  return w.pipeline ? pipelined(std::move(model)) : model;
}

} // namespace mailgrad
