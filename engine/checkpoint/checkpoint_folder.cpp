#include <mailgrad/engine/checkpoint/best_weights.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/npz.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/files/safetensors.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <charconv>
#include <exception>
#include <iterator>
#include <stdexcept>

namespace mailgrad {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view checksum_prefix = "crc32 of ";
constexpr const char* found_weights =
    "expected a checkpoint, found a file of weights; 'mailgrad train --load' begins a run with them";
constexpr const char* found_others =
    "expected a checkpoint, found a safetensors file of another program; if it has the weights of a model, "
    "'mailgrad train --load' begins a run with them";

/// The checksum of a part: of its fields, and of the names and the bytes of its arrays.
std::string checksum(std::string_view text, std::span<const archived_array> arrays) {
  uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
  for (const archived_array& a : arrays) {
    sum = crc32_z(sum, reinterpret_cast<const Bytef*>(a.path.data()), a.path.size());
    sum = crc32_z(sum, reinterpret_cast<const Bytef*>(a.values.data()), a.values.size_bytes());
  }
  return fmt::format("{:08x}", sum);
}

/// The name of the new folder until all files are in it, so that nobody takes it for whole.
fs::path half_made(const fs::path& in, const set_aside& what) { return in / (what.folder + ".partial"); }

/// A folder by its descriptor: it stays the same one, so nobody who writes beside it leads files elsewhere.
class open_folder {
public:
  explicit open_folder(const fs::path& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)),
        why_not_(descriptor_ < 0 ? errno : 0) {}
  open_folder(const open_folder&) = delete;
  open_folder& operator=(const open_folder&) = delete;
  ~open_folder() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  /// The errno of the failure; 0: it is open.
  int why_not() const { return why_not_; }
  fs::path operator/(const std::string& name) const {
    return fs::path("/proc/self/fd") / std::to_string(descriptor_) / name;
  }

private:
  int descriptor_;
  int why_not_;
};

bool is_there(const fs::path& path) {
  std::error_code unknown;
  return fs::exists(fs::symlink_status(path, unknown));
}

void require_done(const std::error_code& wrong, const fs::path& path) {
  if (wrong) throw_unwritable(path, wrong.value());
}

void require_on_disk(const fs::path& folder) {
  if (const int why = sync_folder(folder); why != 0) throw_unwritable(folder, why);
}

/// A name in the folder, and no way out of it.
bool is_name(const std::string& text) {
  return !text.empty() && text != "." && text != ".." && fs::path(text).filename() == text;
}

void share(const fs::path& here, const fs::path& there) {
  std::error_code wrong;
  if (fs::equivalent(here, there, wrong)) return;
  fs::remove(there, wrong);
  fs::create_hard_link(here, there, wrong);
  if (wrong) fs::copy_file(here, there, wrong);
}

void forget(const fs::path& in) {
  std::error_code wrong;
  fs::remove(in / set_aside::file_name, wrong);
  require_done(wrong, in / set_aside::file_name);
  require_on_disk(in);
}

/// The number between `prefix` and the suffix of a checkpoint's name; nothing for another file.
std::optional<std::uint64_t> number_of(const fs::path& file, std::string_view prefix) {
  const std::string name = file.filename().string();
  if (!name.starts_with(prefix) || !name.ends_with(checkpoint_suffix) ||
      name.size() <= prefix.size() + checkpoint_suffix.size())
    return std::nullopt;
  const char* const first = name.data() + prefix.size();
  const char* const last = name.data() + name.size() - checkpoint_suffix.size();
  std::uint64_t number = 0;
  const auto [end, wrong] = std::from_chars(first, last, number);
  return wrong == std::errc() && end == last ? std::optional(number) : std::nullopt;
}

std::optional<std::uint64_t> steps_in(const fs::path& checkpoint) {
  return number_of(checkpoint, checkpoint_prefix);
}

/// Each is as large as a checkpoint, and no run would write it on. Returns whether there were any.
bool remove_abandoned(const fs::path& folder) {
  bool removed = false;
  std::error_code wrong;
  for (fs::directory_iterator file(folder, wrong), end; !wrong && file != end; file.increment(wrong)) {
    const fs::path& part = file->path();
    std::error_code stays;
    if (part.extension() == ".partial" && steps_in(part.stem()) && !replaced_file::is_being_written(part))
      removed |= fs::remove(part, stays);
  }
  return removed;
}

/// A file that a process was setting aside when it ended: a run from there would begin in the middle of that.
void require_present(const fs::path& file) {
  const fs::path folder = folder_of(file);
  const std::optional<set_aside> leaves = unfinished(folder);
  if (!leaves || !leaves->has(file)) return;
  throw_malformed(
      file,
      fmt::format("was being set aside when a process ended; 'mailgrad train --resume {}' completes that "
                  "and goes on without it, and then --resume {} goes on from there",
                  shell_word(folder.string()), shell_word((folder / leaves->folder).string())));
}

bool has_checkpoints(const fs::path& folder) {
  try {
    return !checkpoints_in(folder).empty();
  } catch (const file_error&) {
    return false;
  }
}

/// For a folder without a checkpoint: the first folder in it that has some.
std::string hint_for(const fs::path& where) {
  std::vector<fs::path> inside;
  std::error_code wrong;
  for (fs::directory_iterator file(where, wrong), end; !wrong && file != end; file.increment(wrong))
    if (std::error_code unknown; file->is_directory(unknown) && has_checkpoints(file->path()))
      inside.push_back(file->path());
  if (inside.empty()) return "name the folder that --checkpoint named";
  std::ranges::sort(inside);
  return inside.size() == 1
             ? fmt::format("'{}' has some", inside[0].string())
             : fmt::format("{} folders in it have some, such as '{}'", inside.size(), inside[0].string());
}

/// The best weights of a run are kept as a checkpoint is, and are none.
checkpoint read_of_run(const fs::path& file) {
  checkpoint read = checkpoint::read(file);
  if (read.has(best_weights_part))
    throw_malformed(file, "expected a checkpoint, found the best weights of a run; its checkpoints lie "
                          "beside it, so name the folder");
  return read;
}

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

left_branch branch_of(const fs::path& folder, const set_aside& what) {
  left_branch left{folder / what.folder};
  for (const std::string& name : what.files) left.checkpoints += name.starts_with(checkpoint_prefix) ? 1 : 0;
  left.best = left.checkpoints < what.files.size();
  left.goes_on = what.goes_on;
  return left;
}

} // namespace

std::uint64_t write_checkpoint_file(const fs::path& path, const checkpoint_parts& parts) {
  std::vector<array_to_store> arrays;
  std::map<std::string, std::string> texts{{checkpoint_format_key, checkpoint_format}};
  for (const auto& [name, fields] : parts) {
    for (const archived_array& a : fields->arrays())
      arrays.push_back({name + '/' + a.path, shape{a.values.size()}, a.values});
    const std::string text = fields->text();
    texts[std::string(checksum_prefix) + name] = checksum(text, fields->arrays());
    texts[name] = text;
  }
  write_safetensors(path, arrays, texts, replaced_file::if_link::replaced);
  return fs::file_size(path);
}

checkpoint checkpoint::read(const fs::path& path) {
  require_may_be_checkpoint(path);
  if (npz_file::is_npz(path)) throw_malformed(path, found_weights);
  safetensors_file file(path);
  const auto& texts = file.metadata();
  const kind_of_file kind = kind_of(texts);
  if (kind == kind_of_file::weights) throw_malformed(path, found_weights);
  if (kind == kind_of_file::other) throw_malformed(path, found_others);
  checkpoint read(path);
  for (const auto& [name, text] : texts)
    if (name != checkpoint_format_key && !name.starts_with(checksum_prefix)) read.parts_[name].text = text;
  for (const stored_array& a : file.arrays()) {
    const std::size_t slash = a.name.find('/');
    const auto part = read.parts_.find(a.name.substr(0, slash));
    if (slash == std::string::npos || part == read.parts_.end())
      throw_malformed(path, fmt::format("array {} is of no part", in_quotes(a.name)));
    const auto values = std::make_shared<std::vector<float>>(a.dims.size());
    file.read(a, *values);
    part->second.arrays.push_back({a.name.substr(slash + 1), values, *values});
  }
  for (const auto& [name, part] : read.parts_) {
    const auto sum = texts.find(std::string(checksum_prefix) + name);
    if (sum == texts.end() || sum->second != checksum(part.text, part.arrays))
      throw_malformed(path, fmt::format("{} is damaged: its checksum is not right", in_quotes(name)));
  }
  return read;
}

std::shared_ptr<saved_fields> checkpoint::part(const std::string& name) const {
  const auto found = parts_.find(name);
  if (found == parts_.end())
    throw archive_error(fmt::format("checkpoint '{}' has no part '{}'", path_.string(), name));
  return std::make_shared<saved_fields>(found->second.text, found->second.arrays);
}

bool set_aside::has(const fs::path& file) const {
  return std::ranges::find(files, file.filename().string()) != files.end();
}

void set_aside::keep(archive& a) {
  a.version(1);
  a.fields({"folder", "files", "shared", "goes on"}, folder, files, shared, goes_on);
}

void set_aside::begin(const fs::path& in, const std::function<void()>& after_each) const {
  saved_fields fields;
  set_aside told = *this;
  fields.field("set aside", told);
  const fs::path plan = in / file_name;
  replaced_file file(plan.string(), replaced_file::if_taken::wait, replaced_file::if_link::replaced);
  file << fields.text();
  try {
    if (const int why = file.keep_on_disk(); why != 0) throw_unwritable(plan, why);
    if (after_each) after_each();
    complete(in, after_each);
  } catch (const file_error&) {
    if (undo(in)) forget(in);
    throw;
  }
}

void set_aside::complete(const fs::path& in, const std::function<void()>& after_each) const {
  const auto done = [&](const std::error_code& wrong, const fs::path& path) {
    require_done(wrong, path);
    if (after_each) after_each();
  };
  const fs::path half = half_made(in, *this);
  const auto is_here = [&](const std::string& name) { return is_there(in / name); };
  std::error_code wrong;
  if (is_there(half) || std::ranges::any_of(files, is_here)) {
    fs::create_directory(half, wrong);
    done(wrong, half);
    const open_folder inside(half);
    if (inside.why_not() != 0) throw_unwritable(half, inside.why_not());
    for (const std::string& name : files) {
      if (!is_here(name)) continue;
      fs::rename(in / name, inside / name, wrong);
      done(wrong, in / name);
    }
    if (shared) share(in / shared->first, inside / shared->second);
    require_on_disk(half);
    fs::rename(half, in / folder, wrong);
    done(wrong, in / folder);
    require_on_disk(in);
  }
  forget(in);
}

/// Returns whether all files are where they were.
bool set_aside::undo(const fs::path& in) const {
  const fs::path half = half_made(in, *this);
  const open_folder inside(half);
  std::error_code stays;
  if (inside.why_not() == 0) {
    for (const std::string& name : files)
      if (is_there(inside / name) && !is_there(in / name)) fs::rename(inside / name, in / name, stays);
    if (shared && is_there(in / shared->first)) fs::remove(inside / shared->second, stays);
    fs::remove(half, stays);
  }
  return std::ranges::all_of(files, [&](const std::string& name) { return is_there(in / name); }) &&
         sync_folder(in) == 0;
}

std::optional<set_aside> unfinished(const fs::path& folder) {
  const fs::path file = folder / set_aside::file_name;
  if (!is_there(file)) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  set_aside what;
  try {
    saved_fields(text, {}).field("set aside", what);
  } catch (const archive_error& e) {
    throw_malformed(
        file, fmt::format("expected the files that are being set aside: {}; move it away to go on with what "
                          "lies in the folder",
                          e.what()));
  }
  std::vector<std::string> names = what.files;
  names.push_back(what.folder);
  if (what.shared) names.insert(names.end(), {what.shared->first, what.shared->second});
  for (const std::string& name : names)
    if (!is_name(name))
      throw_malformed(file, fmt::format("expected names of files, found {}", in_quotes(name)));
  return what;
}

std::string checkpoint_name(std::uint64_t steps) {
  return fmt::format("{}{:010}{}", checkpoint_prefix, steps, checkpoint_suffix);
}

numbered_files numbered_files_in(const fs::path& folder, std::string_view prefix) {
  numbered_files found;
  std::error_code wrong;
  for (fs::directory_iterator file(folder.empty() ? "." : folder, wrong), end; !wrong && file != end;
       file.increment(wrong))
    if (const auto number = number_of(file->path(), prefix)) found.emplace_back(*number, file->path());
  if (wrong) throw_unreadable(folder, wrong.value());
  std::ranges::sort(found, std::greater{}, &numbered_files::value_type::first);
  return found;
}

std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (auto& [steps, path] : numbered_files_in(folder, checkpoint_prefix)) paths.push_back(std::move(path));
  return paths;
}

std::vector<fs::path> present_checkpoints_in(const fs::path& folder) {
  std::vector<fs::path> files = checkpoints_in(folder);
  if (const std::optional<set_aside> leaves = unfinished(folder))
    std::erase_if(files, [&](const fs::path& file) { return leaves->has(file); });
  return files;
}

found_checkpoint newest_checkpoint(const fs::path& where) {
  if (!fs::is_directory(where)) {
    require_present(where);
    return {read_of_run(where), {}};
  }
  std::vector<std::string> refused;
  for (const fs::path& file : present_checkpoints_in(where)) {
    try {
      return {read_of_run(file), std::move(refused)};
    } catch (const file_error& e) {
      refused.emplace_back(e.what());
    }
  }
  throw_malformed(where, refused.empty()
                             ? "expected a checkpoint, found none in this folder; " + hint_for(where)
                             : "found no checkpoint that can be read; the newest: " + refused[0]);
}

bool is_whole(const fs::path& file) {
  try {
    read_of_run(file);
    return true;
  } catch (const file_error&) {
    return false;
  }
}

fs::path folder_of(const fs::path& checkpoint) {
  return checkpoint.has_parent_path() ? checkpoint.parent_path() : ".";
}

bool lies_in(const fs::path& folder, const fs::path& checkpoint) {
  std::error_code wrong;
  return !checkpoint.empty() && fs::equivalent(folder, folder_of(checkpoint), wrong);
}

std::uint64_t steps_named_in(const fs::path& folder, const fs::path& checkpoint) {
  return lies_in(folder, checkpoint) ? steps_in(checkpoint).value_or(0) : 0;
}

folder_lock prepare_checkpoint_folder(const fs::path& folder, const fs::path& resumed) {
  std::error_code wrong;
  fs::create_directories(folder, wrong);
  if (wrong) throw_unwritable(folder, wrong.value());
  if (!fs::is_directory(folder)) throw_unwritable(folder, ENOTDIR);
  folder_lock lock(folder, "another run keeps its checkpoints there");
  const bool used = fs::exists(folder / best_weights::file_name, wrong) ||
                    !earlier_best_files(folder).empty() || !checkpoints_in(folder).empty();
  if (!lies_in(folder, resumed) && used)
    throw std::invalid_argument(
        fmt::format("'{}' holds checkpoints of an earlier run; resume that run, or name another folder",
                    folder.string()));
  return lock;
}

void require_newest(const fs::path& checkpoint) {
  const fs::path folder = folder_of(checkpoint);
  for (const fs::path& file : present_checkpoints_in(folder)) {
    if (steps_in(file) <= steps_in(checkpoint)) return;
    if (is_whole(file))
      throw std::invalid_argument(
          fmt::format("{}: another process has written {} there meanwhile; resume the folder again",
                      folder.string(), file.filename().string()));
  }
}

void remove_older_checkpoints(const fs::path& folder, std::uint64_t steps, std::size_t keep) {
  std::size_t kept = 0;
  for (const fs::path& file : checkpoints_in(folder)) {
    if (steps_in(file) > steps || ++kept <= keep) continue;
    std::error_code stays;
    fs::remove(file, stays);
  }
  remove_abandoned(folder);
}

bool is_full_disk(const std::error_code& why) {
  return why == std::errc::no_space_on_device || why == std::error_code(EDQUOT, std::generic_category());
}

room_made make_room(const fs::path& folder, std::uint64_t steps) {
  if (remove_abandoned(folder)) return room_made::of_killed;
  std::vector<fs::path> files = checkpoints_in(folder);
  std::erase_if(files, [steps](const fs::path& file) { return steps_in(file) > steps; });
  if (files.size() < 2) return room_made::none;
  const fs::path oldest = files.back();
  files.pop_back();
  std::error_code stays;
  const bool goes = std::ranges::any_of(files, is_whole) && fs::remove(oldest, stays);
  return goes ? room_made::of_oldest : room_made::none;
}

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
