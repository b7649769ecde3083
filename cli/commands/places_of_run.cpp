#include <mailgrad/cli/commands/places_of_run.hpp>

#include <mailgrad/cli/device_option.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mailgrad {

namespace {

/// An option that names devices, and what a run asks for by it.
struct asked_devices {
  const char* option;
  const char* what;
  const std::string& list;
  std::vector<device> (*read)(const std::string&);
};

/// Empty if this machine has all of them.
std::string why_not_here(const asked_devices& asked) {
  try {
    asked.read(asked.list);
    return {};
  } catch (const device_error& e) {
    return e.what();
  }
}

/// How many devices each worker has.
std::size_t devices_of_each(const train_words& w) {
  if (w.remote.any()) return devices_elsewhere(w);
  return w.span.any() ? std::max(1U, device_count(w.devices) / std::max(1U, w.workers)) : 1;
}

/// Of devices and places that this machine may not have, or no longer. The host is the device that "cpu"
/// names.
std::vector<device> named_devices(const std::string& list) {
  std::vector<device> all;
  for (const std::string& name : split_devices(list))
    all.push_back(name == "host" ? device{} : parse_device(name));
  return all;
}

/// The first core that is not among these.
device free_core(const std::vector<device>& taken) {
  device core;
  while (std::ranges::find(taken, core) != taken.end()) ++core.index;
  return core;
}

} // namespace

memory_needs memory_needs_of(const train_words& w, bool is_replay) {
  memory_needs needs{{}, named_devices(w.parameters), w.run.shards, w.precision, is_replay};
  if (!w.remote.serve) needs.devices = named_devices(w.devices);
  return needs;
}

void require_asked_places(const train_words& w, const option_words& given, const std::string& whose,
                          const way_on_function& way_on) {
  std::string options, line;
  for (const asked_devices& asked : {asked_devices{"--parameters", "weights", w.parameters, read_places},
                                     asked_devices{"--devices", "workers", w.devices, read_devices}}) {
    const bool is_elsewhere = asked.read == read_devices && w.remote.serve;
    if (is_elsewhere || given.has(asked.option) || !names_card(asked.list)) continue;
    const std::string why = why_not_here(asked);
    if (why.empty()) continue;
    if (line.empty()) line = fmt::format("{} has its {} on {}: {}", whose, asked.what, asked.list, why);
    options += (options.empty() ? "" : " and ") + std::string(asked.option);
  }
  if (!line.empty())
    throw device_error(world_errc::no_such_device, fmt::format("{}; {}", line, way_on(options)));
}

std::string way_on_with_cores(const train_words& w) {
  const std::vector<device> all = named_devices(w.devices);
  const std::size_t each = devices_of_each(w);
  std::string names;
  for (std::size_t first = 0; first < all.size(); first += each) {
    // A model needs different cores, while workers may share one.
    const std::size_t end = std::min(first + each, all.size());
    std::vector<device> own(all.begin() + static_cast<std::ptrdiff_t>(first),
                            all.begin() + static_cast<std::ptrdiff_t>(end));
    for (device& d : own) {
      if (d.kind == device_kind::cuda) d = free_core(own);
      names += (names.empty() ? "" : ",") + to_string(d);
    }
  }
  return fmt::format("on cores it goes on with --devices {}{}", names,
                     w.precision == "float32" ? "" : " --precision float32");
}

} // namespace mailgrad
