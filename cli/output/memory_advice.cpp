#include <mailgrad/cli/output/memory_advice.hpp>

#include <mailgrad/engine/plan/parameter_place.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

bool is_card(device d) { return d.kind == device_kind::cuda; }

/// Whether a card is among them twice. Of devices that nobody here knows that may be.
bool has_several_lanes(const std::vector<device>& devices) {
  const auto shares_card = [&](device a) {
    return std::ranges::count_if(devices, [a](device b) { return is_same_card(a, b); }) > 1;
  };
  return devices.empty() || std::ranges::any_of(devices, shares_card);
}

} // namespace

std::string memory_advice(std::string_view why, const memory_needs& run) {
  if (why.find("out of memory: ") == std::string_view::npos) return {};
  if (run.is_replay) return "a replay needs as much memory as the run that it repeats";
  const bool has_weights = std::ranges::any_of(run.places, is_card);
  const bool no_cores = std::ranges::all_of(run.devices, is_card); // which compute in float32 alone
  std::vector<std::string> ways{"a smaller --batch or model"};
  if (has_several_lanes(run.devices)) ways.emplace_back("fewer lanes in --devices");
  if (has_weights && run.shards > 1) ways.emplace_back("fewer --shards");
  if (run.precision != "bfloat16" && no_cores) ways.emplace_back("--precision bfloat16");
  if (has_weights) ways.emplace_back("--parameters host");
  std::string text = "to need less memory, take ";
  for (std::size_t i = 0; i < ways.size(); ++i)
    text += (i == 0 ? "" : i + 1 < ways.size() ? ", " : ", or ") + ways[i];
  return text;
}

} // namespace mailgrad
