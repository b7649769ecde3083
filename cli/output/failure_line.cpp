#include <mailgrad/cli/output/failure_line.hpp>

#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/cli/output/progress_display.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/files/text.hpp>

#include <unistd.h>

#include <iostream>
#include <regex>
#include <sstream>

namespace mailgrad {

namespace {

bool is_control(std::int32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

std::string in_hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return text;
}

/// Without " (csv_options::left_out)".
std::string without_names_of_library(std::string_view words) {
  static const std::regex name(R"( \([a-z_]+::[a-z_]+\))");
  return std::regex_replace(std::string(words), name, "");
}

bool is_gpu(device d) { return d.kind == device_kind::cuda; }

/// Whether a GPU is among them twice. Of devices that nobody here knows that may be.
bool has_several_streams(const std::vector<device>& devices) {
  const auto shares_gpu = [&](device a) {
    return std::ranges::count_if(devices, [a](device b) { return is_same_gpu(a, b); }) > 1;
  };
  return devices.empty() || std::ranges::any_of(devices, shares_gpu);
}

} // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto c = first_character({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    const std::string_view bytes = text.substr(0, c ? c->length : 1);
    const bool kept = c && (!is_control(c->code) || c->code == '\n' || c->code == '\t');
    shown += kept ? std::string(bytes) : in_hexadecimal(bytes);
    text.remove_prefix(bytes.size());
  }
  return shown;
}

std::string fitted_lines(const std::string& text, std::size_t columns) {
  const std::size_t indent = summary_column("").size();
  std::string all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line); all += '\n') {
    const bool fits = line.size() <= columns || line.starts_with(' ') || columns <= indent;
    all += fits ? line : line.substr(0, indent) + wrapped(line.substr(indent), columns - indent, indent);
  }
  return all;
}

std::string fitted_to(int descriptor, const std::string& text) {
  return isatty(descriptor) == 1 ? fitted_lines(text, progress_display::terminal_columns()) : text;
}

void say_failure(std::string_view words) {
  std::cerr << fmt::format("mailgrad: {}\n", printable(without_names_of_library(words)));
}
void say_warning(std::string_view words) {
  std::cerr << fitted_to(STDERR_FILENO,
                         fmt::format("mailgrad: warning: {}\n", printable(without_names_of_library(words))));
}
void say_line(std::string_view words) { std::cerr << fmt::format("{}\n", printable(words)); }

std::string memory_advice(std::string_view why, const memory_needs& run) {
  if (why.find("out of memory: ") == std::string_view::npos) return {};
  if (run.is_replay) return "a replay needs as much memory as the run that it repeats";
  const bool has_weights = std::ranges::any_of(run.places, is_gpu);
  const bool no_cores = std::ranges::all_of(run.devices, is_gpu); // which compute in float32 alone
  std::vector<std::string> ways{"a smaller --batch or model"};
  if (has_several_streams(run.devices)) ways.emplace_back("fewer streams in --devices");
  if (has_weights && run.shards > 1) ways.emplace_back("fewer --shards");
  if (run.precision != "bfloat16" && no_cores) ways.emplace_back("--precision bfloat16");
  if (has_weights) ways.emplace_back("--parameters host");
  std::string text = "to need less memory, take ";
  for (std::size_t i = 0; i < ways.size(); ++i)
    text += (i == 0 ? "" : i + 1 < ways.size() ? ", " : ", or ") + ways[i];
  return text;
}

} // namespace mailgrad
