#include <mailgrad/engine/checkpoint/set_aside.hpp>

#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/files/synced_folder.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

namespace mailgrad {

namespace {

namespace fs = std::filesystem;

/// The name of the new folder until all files are in it, so that nobody takes it for whole.
fs::path half_made(const fs::path& in, const set_aside& what) { return in / (what.folder + ".partial"); }

/// A folder by its descriptor: it stays the same one, whatever its name means by then. A link of that name is
/// none, so nobody who may write beside it leads the files elsewhere.
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

} // namespace

bool set_aside::has(const fs::path& file) const {
  return std::ranges::find(files, file.filename().string()) != files.end();
}

void set_aside::keep(archive& a) {
  a.version(1);
  a.field("folder", folder);
  a.field("files", files);
  a.field("shared", shared);
  a.field("goes on", goes_on);
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

} // namespace mailgrad
