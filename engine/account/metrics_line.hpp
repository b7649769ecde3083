#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

/// What is measured of a run at one moment. Counts are those of the run so far, as far as the actors have
/// told it: at most a tenth of a second ago, or one step.
struct metrics_line {
  double time_s = 0;         ///< since the run began
  std::uint64_t steps = 0;   ///< mini-batches trained, by all workers
  std::uint64_t updates = 0; ///< versions of the weights, of the shard that made most
  std::uint64_t samples = 0;
  double epoch = 0;                             ///< passes over the training set
  std::optional<double> train_loss{};           ///< mean over the samples since the last line
  double learning_rate = 0;                     ///< after its schedule
  std::optional<double> staleness_mean{};       ///< versions, of the gradients since the last line
  std::optional<std::uint64_t> staleness_p99{}; ///< likewise
  std::uint64_t computed = 0;        ///< gradients that reached the first shard, or were written by hogwild
  std::uint64_t applied = 0;         ///< of these: each made an update by itself (gradient_ledger)
  std::uint64_t merged = 0;          ///< of these: they made an update together with others
  std::uint64_t discarded = 0;       ///< of these
  double samples_per_s = 0;          ///< since the last line that is at least half a second old
  double waiting_s = 0;              ///< at barriers, at a bound and for batches, summed over all workers
  std::optional<double> test_loss{}; ///< of weights that were tested since the last line, as these six
  std::optional<double> test_accuracy{};
  std::optional<double> test_rmse{};
  std::optional<double> validation_loss{}; ///< where samples are held out for it, as these three
  std::optional<double> validation_accuracy{};
  std::optional<double> validation_rmse{};

  bool tested() const noexcept { return test_loss || validation_loss; }
};

/// The figures of a line by the names of their columns, in the order in which they are written.
std::vector<std::pair<std::string, std::optional<double>>> named_figures(const metrics_line& x);

/// One JSON object without a line feed. An unknown figure is null, or absent if it is of a test.
std::string to_json(const metrics_line& x);

/// The names of all columns, and one line of them. Unknown figures are empty. Neither has a line feed.
std::string metrics_csv_header();
std::string to_csv(const metrics_line& x);

/// The lines of a run, evenly thinned as they become too many. Lines with a test go last; the last line
/// stays.
class metrics_curve {
public:
  static constexpr std::size_t most = 200;

  void add(const metrics_line& line);
  std::vector<metrics_line> lines() const; ///< at most `most` of the lines, in their order

private:
  std::vector<metrics_line> kept_;   ///< fewer than `most`
  std::optional<metrics_line> last_; ///< unless it is kept
  std::uint64_t stride_ = 1;         ///< one in so many lines without a test is kept
  std::uint64_t untested_ = 0;       ///< lines without a test so far
};

/// A file that grows by a line at a time, so that others read it during the run: JSON lines, or CSV with a
/// header if its name ends in .csv. What an older file of that name held is kept as FILE.old, FILE.old-2 and
/// so on. It is locked while this object lives, so that two runs do not take it from each other.
/// Threads one caller at a time.
class metrics_file {
public:
  /// Errors  std::system_error if the file cannot be written; std::invalid_argument if another run writes it.
  explicit metrics_file(std::string path);
  ~metrics_file();
  metrics_file(const metrics_file&) = delete;
  metrics_file& operator=(const metrics_file&) = delete;
  /// Writes the line, so that a reader sees it. After a failure nothing more is written.
  void add(const metrics_line& x);
  /// Why the file is not whole; empty if it is.
  const std::string& failure() const noexcept { return failure_; }

private:
  void write(const std::string& line);

  std::string path_;
  bool csv_;
  int lock_ = -1; ///< a descriptor; -1: a pipe or a device, which is not locked
  std::ofstream out_;
  std::string failure_;
};

} // namespace mailgrad
