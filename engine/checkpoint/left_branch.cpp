#include <mailgrad/engine/checkpoint/left_branch.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <system_error>
#include <vector>

namespace mailgrad {

namespace {

namespace fs = std::filesystem;

/// By its name, or by what it tells if it has a name of its own.
std::uint64_t steps_of(const fs::path& resumed, const tested_history& history) {
  const std::uint64_t named = steps_named_in(folder_of(resumed), resumed);
  return named > 0 ? named : history.steps;
}

/// A name that nothing has yet: a run may go back to the same checkpoint again.
fs::path new_name(const fs::path& first) {
  fs::path name = first;
  std::error_code unknown;
  const auto is_taken = [&](const fs::path& of) { return fs::exists(fs::symlink_status(of, unknown)); };
  for (int again = 2; is_taken(name) || is_taken(name.string() + ".partial"); ++again)
    name = fmt::format("{}-{}", first.string(), again);
  return name;
}

std::string left_after(const fs::path& resumed, const tested_history& history) {
  return fmt::format("left-after-{:010}", steps_of(resumed, history));
}

/// The test of a file of best weights; nothing if it is not there, or cannot be read.
std::optional<evaluation_made> test_in(const fs::path& file) {
  try {
    return read_best_test(file);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::vector<fs::path> later_checkpoints(const fs::path& resumed, const tested_history& history) {
  const fs::path folder = folder_of(resumed);
  const std::uint64_t steps = steps_of(resumed, history);
  std::vector<fs::path> later;
  for (const fs::path& file : present_checkpoints_in(folder))
    if (steps_named_in(folder, file) > steps) later.push_back(file);
  return later;
}

/// Files of best weights, by whether their tests are of the history, the latest first.
struct kept_bests {
  std::vector<fs::path> of_history, later;
};

kept_bests bests_in(const fs::path& folder, const tested_history& history) {
  std::vector<fs::path> files{folder / best_weights::file_name};
  for (const auto& [steps, file] : earlier_best_files(folder)) files.push_back(file);
  kept_bests found;
  for (const fs::path& file : files)
    if (const auto test = test_in(file))
      (history.has(*test) ? found.of_history : found.later).push_back(file);
  return found;
}

bool is_checkpoint(const std::string& name) { return name.starts_with(checkpoint_prefix); }

/// What was set aside in a folder, where it lies now.
left_branch branch_of(const fs::path& folder, const set_aside& what) {
  left_branch left{folder / what.folder};
  left.checkpoints = static_cast<std::size_t>(std::ranges::count_if(what.files, is_checkpoint));
  left.best = left.checkpoints < what.files.size();
  left.goes_on = what.goes_on;
  return left;
}

} // namespace

left_branch leave_later_branch(const fs::path& resumed, const tested_history& history,
                               const std::function<void()>& after_each) {
  const fs::path folder = folder_of(resumed);
  const std::vector<fs::path> checkpoints = later_checkpoints(resumed, history);
  const kept_bests bests = bests_in(folder, history);
  if (checkpoints.empty() && bests.later.empty()) return {};
  set_aside what{new_name(folder / left_after(resumed, history)).filename().string()};
  for (const auto* files : {&checkpoints, &bests.later})
    for (const fs::path& file : *files) what.files.push_back(file.filename().string());
  what.goes_on = std::ranges::any_of(checkpoints, is_whole);
  if (what.goes_on && !bests.of_history.empty()) {
    const fs::path& best = bests.of_history[0];
    what.shared = {best.filename().string(), earlier_best_file("", test_in(best)->steps).filename().string()};
  }
  what.begin(folder, after_each);
  return branch_of(folder, what);
}

left_branch complete_left_branch(const fs::path& folder) {
  const std::optional<set_aside> what = unfinished(folder);
  if (!what) return {};
  what->complete(folder);
  return branch_of(folder, *what);
}

std::string leave_recording(const fs::path& resumed, const tested_history& history,
                            const fs::path& recording) {
  std::error_code wrong;
  if (later_checkpoints(resumed, history).empty() || !fs::is_regular_file(recording, wrong)) return {};
  const fs::path name = new_name(recording.string() + '.' + left_after(resumed, history));
  fs::create_hard_link(recording, name, wrong);
  if (wrong) fs::copy_file(recording, name, wrong);
  if (wrong) throw_unwritable(name, wrong.value());
  return fmt::format("set aside in {}: the recording of the run that is left", name.string());
}

std::string in_words(const left_branch& left) {
  if (left.folder.empty()) return {};
  std::string what = left.checkpoints == 0 ? ""
                                           : fmt::format("{} later checkpoint{}", left.checkpoints,
                                                         left.checkpoints == 1 ? "" : "s");
  if (left.best)
    what += std::string(what.empty() ? "" : " and ") + "the best weights, which are of a later test";
  const std::string way_back = left.goes_on ? fmt::format("; 'mailgrad train --resume {}' goes on from there",
                                                          shell_word(left.folder.string()))
                                            : "";
  return fmt::format("set aside in {}: {}{}", left.folder.string(), what, way_back);
}

} // namespace mailgrad
