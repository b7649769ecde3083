#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/files/locks.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <system_error>

namespace mailgrad {

struct tested_history; // best_weights.hpp

/// The parts of a checkpoint by name: "run", "feeder", "worker 0", "shard 0".
using checkpoint_parts = std::map<std::string, std::shared_ptr<const saved_fields>>;

/// Writes a checkpoint, a safetensors file: the arrays of all parts, their other fields in its texts, and a
/// checksum of each part. The file takes the place of an older one when all of it is on the disk.
/// Returns  the size of the file in bytes.
/// Errors   file_error if the file cannot be written; it then does not exist, or is the older one.
std::uint64_t write_checkpoint_file(const std::filesystem::path& path, const checkpoint_parts& parts);

/// A checkpoint that was read whole. Its checksums are right.
/// Threads  any.
class checkpoint {
public:
  /// Errors  file_error in one line: the file cannot be read, is no checkpoint, is cut short or damaged.
  static checkpoint read(const std::filesystem::path& path);
  /// A checkpoint that was not written to a file; `name` stands for its path.
  static checkpoint of(const checkpoint_parts& parts, const std::string& name) {
    checkpoint made(name);
    for (const auto& [part, fields] : parts) made.parts_[part] = {fields->text(), fields->arrays()};
    return made;
  }

  const std::filesystem::path& path() const noexcept { return path_; }
  bool has(const std::string& part) const { return parts_.contains(part); }
  /// The fields of a part, to be read by one object.
  /// Errors  archive_error if there is no such part.
  std::shared_ptr<saved_fields> part(const std::string& name) const;

  template <kept T>
  T object(const std::string& name) const {
    T x{};
    part(name)->field(name, x);
    return x;
  }

private:
  struct stored {
    std::string text;
    std::vector<archived_array> arrays;
  };

  explicit checkpoint(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  std::map<std::string, stored> parts_;
};

/// Files of a folder that go together into a new folder inside it. That takes several moves, so a file in the
/// folder tells all of them until the last one is on the disk. If a process ends between two moves, everybody
/// still knows which files are set aside, and whoever goes on there completes the moves.
/// Threads  one process at a time, which has the folder locked; unfinished() any.
struct set_aside {
  static constexpr std::string_view file_name = ".mailgrad.set-aside";

  std::string folder;               ///< the name of the new one
  std::vector<std::string> files{}; ///< their names, those that matter most first
  /// What stays here and is there as well: its name here, and there. Files are replaced, never written to.
  std::optional<std::pair<std::string, std::string>> shared{};
  bool goes_on = false; ///< a run can go on from what is set aside

  bool has(const std::filesystem::path& file) const;

  /// Sets them aside. `after_each` is called after each change on the disk.
  /// Errors  file_error if a file cannot be moved. All are then where they were, or unfinished() tells.
  void begin(const std::filesystem::path& in, const std::function<void()>& after_each = {}) const;
  /// Does what another process has left to do.
  /// Errors  file_error if a file cannot be moved; the next process tries again.
  void complete(const std::filesystem::path& in, const std::function<void()>& after_each = {}) const;

  void keep(archive& a);

private:
  bool undo(const std::filesystem::path& in) const;
};

/// What a process began to set aside in this folder and did not complete.
/// Errors  file_error in one line: the file that tells it is damaged.
std::optional<set_aside> unfinished(const std::filesystem::path& folder);

/// "checkpoint-0000000500.safetensors", of a run whose workers have trained 500 mini-batches.
std::string checkpoint_name(std::uint64_t steps);

using numbered_files = std::vector<std::pair<std::uint64_t, std::filesystem::path>>;

/// The files in a folder named `prefix`, a number and the suffix of a checkpoint, the largest number first.
/// Errors  file_error if the folder cannot be read.
numbered_files numbered_files_in(const std::filesystem::path& folder, std::string_view prefix);

/// The checkpoints in a folder by their names, that of the most steps first. Other files are left alone.
/// Errors  file_error if the folder cannot be read.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& folder);

/// The same without those that a process was setting aside when it ended (set_aside).
std::vector<std::filesystem::path> present_checkpoints_in(const std::filesystem::path& folder);

/// A checkpoint, and a line for each newer one that could not be read.
struct found_checkpoint {
  checkpoint what;
  std::vector<std::string> refused;
};

/// Reads the newest checkpoint of a folder that is whole, or that file if `where` is one.
/// Errors  file_error: there is none, with why the newest was refused; or the file was just being set aside.
found_checkpoint newest_checkpoint(const std::filesystem::path& where);

bool is_whole(const std::filesystem::path& file);

/// The folder of a checkpoint; "." for a mere name.
std::filesystem::path folder_of(const std::filesystem::path& checkpoint);

/// The steps in the name of a checkpoint in this folder; 0 if it lies elsewhere or has another name. They may
/// be more than it has, if local steps were lost with their worker.
std::uint64_t steps_named_in(const std::filesystem::path& folder, const std::filesystem::path& checkpoint);

/// Makes the folder of a run's checkpoints, if it is not there, and keeps other runs from writing there. It
/// must hold none, unless the run goes on from `resumed`, a file in it. An empty path: the run begins.
/// Errors  folder_taken: another run writes there; file_error; std::invalid_argument if it holds checkpoints.
[[nodiscard]] folder_lock prepare_checkpoint_folder(const std::filesystem::path& folder,
                                                    const std::filesystem::path& resumed);

/// Whether a checkpoint goes on in this folder, since it lies there.
bool lies_in(const std::filesystem::path& folder, const std::filesystem::path& checkpoint);

/// Requires a checkpoint to be still the newest whole one of its folder, which is locked now.
/// Errors  std::invalid_argument in one line: there is a newer one.
void require_newest(const std::filesystem::path& checkpoint);

/// Removes all but the `keep` newest of the checkpoints up to `steps`, and what killed processes have left.
void remove_older_checkpoints(const std::filesystem::path& folder, std::uint64_t steps, std::size_t keep);

/// Whether a file could not be written because the disk, or the share of this user, is full.
bool is_full_disk(const std::error_code& why);

/// What went for a checkpoint that has no room on a full disk.
enum class room_made : std::uint8_t {
  none,
  of_killed, ///< what a process that was killed had written of one
  of_oldest  ///< the oldest checkpoint
};

/// Makes room for another checkpoint: removes what killed processes have left, or else the oldest of the
/// checkpoints up to `steps`, if a whole one is left then.
room_made make_room(const std::filesystem::path& folder, std::uint64_t steps);

/// What came after an older checkpoint in its folder, to which a resume of the folder would go back.
struct left_branch {
  std::filesystem::path folder{}; ///< where it lies now; empty: nothing came after the checkpoint
  std::size_t checkpoints = 0;
  bool goes_on = false; ///< one of these is whole, so a run can go on from there
  bool best = false;    ///< weights that were the best in a test after the checkpoint
};

/// Moves the checkpoints that came after `resumed`, and the best weights of tests that are not of its
/// history, into a folder of their own beside it. The best weights before them come along, since a run that
/// goes on from there stands on them, too. The folder must be locked. All of that happens or nothing, also if
/// the process ends meanwhile (set_aside). `after_each` is called after each change on the disk.
/// Errors  file_error if a file cannot be moved.
left_branch leave_later_branch(const std::filesystem::path& resumed, const tested_history& history,
                               const std::function<void()>& after_each = {});

/// Completes that where a process has ended meanwhile. The folder must be locked.
/// Errors  file_error if a file cannot be moved.
left_branch complete_left_branch(const std::filesystem::path& folder);

/// Keeps the recording of the run that is left under another name, before a run that goes on from `resumed`
/// writes over it. Returns what is said of it; empty if none came after `resumed`, or there is no file.
/// Errors  file_error if it cannot be kept.
std::string leave_recording(const std::filesystem::path& resumed, const tested_history& history,
                            const std::filesystem::path& recording);

/// "set aside in runs/left-after-0000000500: 2 later checkpoints and the best weights of a later test; ..."
std::string in_words(const left_branch& left);

} // namespace mailgrad
