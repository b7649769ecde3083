#include <mailgrad/cli/output/way_on_words.hpp>

#include <mailgrad/cli/output/run_outputs.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/files/shell_word.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <system_error>
#include <vector>

namespace mailgrad {

std::string checkpoints_in_words(const checkpoint_account& c) {
  std::string text = fmt::format("{} written", c.written);
  if (c.written > 0)
    text += fmt::format(" in {:.2f} s, the last after step {}: {}", c.seconds, c.steps, c.last);
  if (c.skipped > 0)
    text += fmt::format("; {} skipped, which became due before the one before could be begun", c.skipped);
  if (c.held_seconds > 0) text += fmt::format("; workers stood still for {:.3f} s", c.held_seconds);
  if (c.removed_for_room > 0)
    text += fmt::format("; {} older {} removed to make room on the full disk", c.removed_for_room,
                        c.removed_for_room == 1 ? "one was" : "ones were");
  if (c.failed > 0) text += fmt::format("; {} failed, the last: {}", c.failed, c.failure);
  return text;
}

namespace {

/// Of a run that was ended because it was trained enough, the options that said so, to be given anew.
std::string asked_to_end_by(const training_report& r) {
  std::string options;
  for (const char* option : {"--stop-when", "--patience"})
    if (std::ranges::any_of(r.command, [&](const std::string& w) { return w.starts_with(option); }))
      options += (options.empty() ? "  # with another " : " or ") + std::string(option);
  return r.enough ? options : "";
}

/// Whether this is the newest checkpoint of its folder, as far as that can be read.
bool is_newest_checkpoint(const std::filesystem::path& file, const std::filesystem::path& folder) {
  std::error_code unknown;
  try {
    const std::vector<std::filesystem::path> all = checkpoints_in(folder);
    return !all.empty() && std::filesystem::equivalent(all.front(), file, unknown);
  } catch (const std::exception&) {
    return false;
  }
}

/// The folder whose newest checkpoint has the run as far as it was kept: one of its own, or else the one that
/// it went on from. That file itself, if the folder has a newer one, of another run. Empty if there is none.
std::string last_checkpoint_of(const training_report& r) {
  const auto folder_of = [](const std::string& file) {
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    return folder.empty() ? std::string(".") : folder.string();
  };
  if (r.checkpoints && !r.checkpoints->last.empty()) return folder_of(r.checkpoints->last);
  std::error_code unknown;
  if (!r.resumed || !std::filesystem::is_regular_file(r.resumed->from, unknown)) return "";
  const std::string folder = folder_of(r.resumed->from);
  return is_newest_checkpoint(r.resumed->from, folder) ? folder : r.resumed->from;
}

} // namespace

std::string way_on_in_words(const training_report& r, const std::string& command) {
  const bool early = r.ended == "failed" || r.ended == "stopped";
  const std::string from = early ? last_checkpoint_of(r) : "";
  if (from.empty()) return "";
  const bool is_own = r.checkpoints && !r.checkpoints->last.empty();
  const bool writes = std::ranges::any_of(
      r.command, [](const std::string& w) { return is_output_option(w.substr(0, w.find('='))); });
  return "goes on by    " + command + " --resume " + shell_word(from) + (writes ? " --same-outputs" : "") +
         asked_to_end_by(r) + (is_own ? "" : fmt::format("  # after step {}", r.resumed->steps)) + '\n';
}

} // namespace mailgrad
