#include <mailgrad/tensor/device.hpp>

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

namespace mailgrad {

namespace {

/// Reads all of `text` as the number of a device or of a lane.
std::uint32_t number_in(std::string_view text, std::string_view device, const char* what) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size())
    throw device_error(world_errc::no_such_device,
                       fmt::format("device '{}': '{}' is not {}", device, text, what));
  return number;
}

} // namespace

std::string to_string(device d) {
  const char* const kind = d.kind == device_kind::cpu ? "cpu" : "cuda";
  return d.lane == 0 ? fmt::format("{}:{}", kind, d.index) : fmt::format("{}:{}/{}", kind, d.index, d.lane);
}

device parse_device(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  device result;
  if (kind == "cuda")
    result.kind = device_kind::cuda;
  else if (kind != "cpu")
    throw device_error(world_errc::no_such_device,
                       fmt::format("device '{}': expected cpu:N or cuda:N; this machine has {}", text,
                                   available_in_words()));
  if (colon == std::string_view::npos) return result;
  const std::string_view numbers = text.substr(colon + 1);
  const auto slash = result.kind == device_kind::cuda ? numbers.find('/') : std::string_view::npos;
  result.index = number_in(numbers.substr(0, slash), text, "an index");
  if (slash != std::string_view::npos) result.lane = number_in(numbers.substr(slash + 1), text, "a lane");
  return result;
}

std::vector<device> available_devices() {
  std::vector<device> all;
  const std::uint32_t cores = std::max(1U, std::thread::hardware_concurrency());
  for (std::uint32_t core = 0; core < cores; ++core) all.push_back({device_kind::cpu, core});
  return all;
}

std::string available_in_words() {
  std::string words;
  for (device d : available_devices()) words += (words.empty() ? "" : ", ") + to_string(d);
  return words;
}

void require_available(device d) {
  const auto all = available_devices();
  if (std::ranges::find(all, d) != all.end()) return;
  throw device_error(
      world_errc::no_such_device,
      fmt::format("device {} is not available; this machine has {}", to_string(d), available_in_words()));
}

} // namespace mailgrad
