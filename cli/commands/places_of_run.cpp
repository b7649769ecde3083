#include <mailgrad/cli/commands/places_of_run.hpp>

#include <mailgrad/cli/spanning_option.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mailgrad {

namespace {

using read_function = std::vector<device> (*)(const std::string&);

void require_list(const std::string& list, read_function read, const std::string& asks,
                  const std::string& way_on) {
  try {
    read(list);
  } catch (const device_error& e) {
    throw device_error(world_errc::no_such_device,
                       fmt::format("{} on {}: {}; {}", asks, list, e.what(), way_on));
  }
}

} // namespace

memory_needs memory_needs_of(const train_words& w, bool is_replay) {
  memory_needs needs{{}, split_devices(w.parameters), w.shards, w.precision, is_replay};
  if (!w.remote.serve) needs.devices = split_devices(w.devices);
  return needs;
}

void require_asked_places(const train_words& w, const option_words& given, const std::string& whose,
                          const std::string& way_on) {
  if (!given.has("--parameters") && names_card(w.parameters))
    require_list(w.parameters, read_places, whose + " has its weights", way_on);
  if (!w.remote.serve && !given.has("--devices") && names_card(w.devices))
    require_list(w.devices, read_devices, whose + " has its workers", way_on);
}

std::string way_on_with_cores(const train_words& w) {
  const std::vector<std::string> names = split_devices(w.devices);
  const std::size_t each =
      w.span.any() ? std::max<std::size_t>(1, names.size() / std::max(1U, w.workers)) : 1;
  std::string devices;
  for (std::size_t i = 0; i < names.size(); ++i) {
    // A model needs different cores, while workers may share one.
    const device core{device_kind::cpu, static_cast<std::uint32_t>(i % each)};
    devices += (devices.empty() ? "" : ",") + (names_card(names[i]) ? to_string(core) : names[i]);
  }
  return fmt::format("on cores it goes on with --devices {}{}", devices,
                     w.precision == "float32" ? "" : " --precision float32");
}

} // namespace mailgrad
