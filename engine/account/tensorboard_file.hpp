#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <filesystem>

namespace mailgrad {

/// Whether this build has Protocol Buffers, of which files for TensorBoard are made.
bool can_write_tensorboard() noexcept;

/// A record of a file of TensorFlow's: the length of the data, the data, and a masked CRC-32C behind each.
/// Source  tensorflow.org/tutorials/load_data/tfrecord, "TFRecords format details".
std::string tf_record(std::string_view data);

// Events as TensorBoard reads them, each as the bytes of one message. tf_record() makes records of them.

struct board_moment {
  double wall_time = 0;   ///< s since 1970
  std::uint64_t step = 0; ///< mini-batches trained, by all workers
};

std::string version_event(double wall_time);

/// A run goes on from this step: TensorBoard leaves out what earlier files have of it and of later ones.
std::string resume_event(const board_moment& when);

/// Options of a run by their names, each a number or a text.
using board_options = std::vector<std::pair<std::string, std::variant<double, std::string>>>;

/// The row of this run in the table HPARAMS.
std::string options_event(double wall_time, const board_options& options);

/// A text under this tag, which TensorBoard reads as Markdown, and what it counts under another one.
std::string text_event(const board_moment& when, std::string_view tag, const std::string& markdown);
std::string count_event(const board_moment& when, std::string_view tag, std::uint64_t count);

/// The figures of a line that are known, each under its tag. TensorBoard keeps a figure as a float32.
std::string scalars_event(const board_moment& when, const metrics_line& x);

/// The histogram "staleness/gaps". Gaps below 1024 have a bucket each; larger ones share one by power of two.
std::string gaps_event(const board_moment& when, const staleness_histogram& gaps);

struct board_start {
  calendar_time date{};           ///< of this process
  instant elapsed_before{0};      ///< time_s at this date; not 0 if it counts earlier processes too
  std::uint64_t steps_before = 0; ///< of earlier processes, if the steps of the lines leave these out
  std::optional<std::uint64_t> resumed_at{}; ///< the steps after which an earlier process was left
  board_options options{};                   ///< of the run; none: it has no row of its own among others
  std::string policy{};                      ///< with which it begins
  std::uint64_t switches = 0;                ///< of policy, by earlier processes
};

/// An event file of TensorBoard's, which grows while the run goes on. Each run writes one of its own into the
/// folder, behind those of earlier ones in the order of their names; it changes none of them.
class tensorboard_file {
public:
  /// Makes the folder if it is not there.
  /// Errors  std::system_error if the file cannot be written.
  tensorboard_file(const std::string& folder, const board_start& start);
  /// Writes the event, so that a reader sees it. After a failure nothing more is written.
  void add(const metrics_line& x);
  void add(const gaps_measured& x);
  /// A text under "policy" at the step of the switch, and how many there were, at the time of the last line.
  void add(const policy_switch& x);
  /// A text and two counts under "members", at the step and the time of the last line.
  void add(const members_changed& x);
  /// Why the file is not whole; empty if it is.
  const std::string& failure() const noexcept { return failure_; }
  const std::filesystem::path& path() const noexcept { return path_; }

private:
  board_moment moment_of(double time_s, std::uint64_t steps) const noexcept;
  void tell_policy(const board_moment& when, const std::string& markdown);
  void write(const std::string& event);

  double time_zero_; ///< s since 1970 where time_s is 0
  std::uint64_t steps_before_;
  board_moment last_; ///< of a line, or where the file begins
  std::uint64_t switches_;
  std::filesystem::path path_;
  std::ofstream out_;
  std::string failure_;
};

} // namespace mailgrad
