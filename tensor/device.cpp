#include <mailgrad/tensor/device.hpp>

#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/usable_cores.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace mailgrad {

namespace {

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw device_error(world_errc::no_such_device, fmt::format("device '{}': {}", text, why));
}

/// How a device of this kind is written, which a refusal of its index ends with. Not everywhere is a lane
/// taken.
const char* form_of(device_kind kind) {
  return kind == device_kind::cpu ? "write cpu:0, or cpu:1 for the second core" : "write cuda:0";
}

/// The same for its lane.
constexpr const char* form_of_lane = "write cuda:0/1 for the second lane of cuda:0";

/// Reads all of `digits` as the number of a device or of a lane. `what` is "an index" or "a lane", and `form`
/// how it is written.
std::uint32_t number_in(std::string_view digits, std::string_view text, const char* what, const char* form) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = end == digits.data() + digits.size();
  if (whole && error == std::errc::result_out_of_range)
    refuse(text, fmt::format("'{}' is too large for {}; {}", digits, what, form));
  if (!whole || error != std::errc{}) refuse(text, fmt::format("'{}' is not {}; {}", digits, what, form));
  return number;
}

} // namespace

std::string to_string(device d) {
  const char* const kind = d.kind == device_kind::cpu ? "cpu" : "cuda";
  return d.lane == 0 ? fmt::format("{}:{}", kind, d.index) : fmt::format("{}:{}/{}", kind, d.index, d.lane);
}

device parse_device(std::string_view text) {
  if (text.find(',') != std::string_view::npos) refuse(text, "these are several, and one is taken here");
  const auto colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  device result;
  if (kind == "cuda")
    result.kind = device_kind::cuda;
  else if (kind != "cpu")
    refuse(text, "expected cpu:N or cuda:N");
  if (colon == std::string_view::npos) return result;
  const std::string_view numbers = text.substr(colon + 1);
  const auto slash = numbers.find('/');
  result.index = number_in(numbers.substr(0, slash), text, "an index", form_of(result.kind));
  if (slash == std::string_view::npos) return result;
  if (result.kind == device_kind::cpu)
    refuse(text, fmt::format("a core has no lanes; write {}", to_string(result)));
  result.lane = number_in(numbers.substr(slash + 1), text, "a lane", form_of_lane);
  return result;
}

std::vector<device> available_devices() {
  std::vector<device> all;
  const std::uint32_t cores = static_cast<std::uint32_t>(cores_of_process().online);
  for (std::uint32_t core = 0; core < cores; ++core) all.push_back({device_kind::cpu, core});
  return all;
}

std::vector<device> cpus(std::uint32_t count) {
  const std::vector<device> present = available_devices();
  std::vector<device> all;
  for (std::uint32_t i = 0; i < count; ++i) all.push_back(present[i % present.size()]);
  return all;
}

std::vector<device> gpus(std::uint32_t count) {
  std::vector<device> all;
  for (std::uint32_t i = 0; i < count; ++i) all.push_back({device_kind::cuda, i});
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
