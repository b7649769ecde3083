#include <mailgrad/engine/checkpoint/left_branch.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/shell_word.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>
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
  for (int again = 2; fs::exists(fs::symlink_status(name, unknown)); ++again)
    name = fmt::format("{}-{}", first.string(), again);
  return name;
}

std::string left_after(const fs::path& resumed, const tested_history& history) {
  return fmt::format("left-after-{:010}", steps_of(resumed, history));
}

/// The test of a file of best weights; nothing if it is not there, or cannot be read.
std::optional<evaluation_made> test_in(const fs::path& file) {
  try {
    return read_best_weights(file).test;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::vector<fs::path> later_checkpoints(const fs::path& resumed, const tested_history& history) {
  const fs::path folder = folder_of(resumed);
  const std::uint64_t steps = steps_of(resumed, history);
  std::vector<fs::path> later;
  for (const fs::path& file : checkpoints_in(folder))
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

/// Into a new folder. If one file cannot be moved, all are where they were.
void move_all(const std::vector<fs::path>& files, const fs::path& folder) {
  std::error_code wrong;
  fs::create_directory(folder, wrong);
  if (wrong) throw_unwritable(folder, wrong.value());
  for (std::size_t moved = 0; moved < files.size(); ++moved) {
    fs::rename(files[moved], folder / files[moved].filename(), wrong);
    if (!wrong) continue;
    std::error_code ignored;
    for (std::size_t back = 0; back < moved; ++back)
      fs::rename(folder / files[back].filename(), files[back], ignored);
    fs::remove(folder, ignored);
    throw_unwritable(folder, wrong.value());
  }
}

/// Files are replaced and never written to, so two names of one file are as good as two files.
void share_with(const fs::path& folder, const fs::path& file, std::uint64_t steps) {
  const fs::path name = earlier_best_file(folder, steps);
  std::error_code wrong;
  fs::create_hard_link(file, name, wrong);
  if (wrong) fs::copy_file(file, name, wrong);
}

} // namespace

left_branch leave_later_branch(const fs::path& resumed, const tested_history& history) {
  const std::vector<fs::path> checkpoints = later_checkpoints(resumed, history);
  const kept_bests bests = bests_in(folder_of(resumed), history);
  left_branch left;
  if (checkpoints.empty() && bests.later.empty()) return left;
  left.folder = new_name(folder_of(resumed) / left_after(resumed, history));
  std::vector<fs::path> all = checkpoints;
  all.insert(all.end(), bests.later.begin(), bests.later.end());
  move_all(all, left.folder);
  left.checkpoints = checkpoints.size();
  left.best = !bests.later.empty();
  for (const fs::path& file : checkpoints) left.goes_on |= is_whole(left.folder / file.filename());
  if (left.goes_on && !bests.of_history.empty())
    share_with(left.folder, bests.of_history[0], test_in(bests.of_history[0])->steps);
  return left;
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
