#pragma once

#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <mutex>

namespace mailgrad {

struct kept_best {
  evaluation_made test;
  std::vector<float> weights;

  void keep(archive& a);
  void keep_test(archive& a);
};

/// The best weights that were tested during a run: those of the lowest loss, of equals the first.
/// Threads  any.
class best_weights {
public:
  /// The file beside the checkpoints of a run, which keeps its best weights when the process ends.
  static constexpr std::string_view file_name = "best-weights.safetensors";

  /// With a folder, they are kept there as well, each time that better ones come. Those before them then stay
  /// as an earlier_best_file(), as long as a run may go on from an older checkpoint.
  explicit best_weights(std::optional<std::filesystem::path> folder, std::optional<kept_best> before = {});
  /// Keeps those from before in the folder, unless they are there. A damaged file gets the suffix ".damaged".
  void begin();
  /// Takes these weights, float32[size of the layout], if they did better than all before, as NaN never does.
  void offer(const evaluation_made& test, std::span<const float> weights);
  /// The best so far; nothing if no test was made.
  std::optional<kept_best> best() const {
    const std::lock_guard guard(mutex_);
    return best_;
  }
  /// Why they could not be kept in the folder the last time; empty if they could.
  std::string failure() const {
    const std::lock_guard guard(mutex_);
    return failure_;
  }

private:
  const std::optional<std::filesystem::path> folder_;
  mutable std::mutex mutex_; ///< guards the members below
  std::optional<kept_best> best_;
  std::string failure_;
};

/// The tests that a run stands on which goes on from a checkpoint.
struct tested_history {
  std::uint64_t steps = std::numeric_limits<std::uint64_t>::max(); ///< trained before the checkpoint
  /// Of the tests that the checkpoint tells of, the last of which may have begun some steps later.
  std::optional<double> lowest_loss{};

  bool has(const evaluation_made& test) const { return test.steps <= steps || test.loss == lowest_loss; }
};

/// "best-weights-0000000450.safetensors": best weights until better ones came, of a test after 450 steps.
std::filesystem::path earlier_best_file(const std::filesystem::path& folder, std::uint64_t steps);
/// Those in a folder by their names, with the steps, that of the latest test first.
numbered_files earlier_best_files(const std::filesystem::path& folder);

/// The same of the test alone. The weights are not read, and may be damaged.
evaluation_made read_best_test(const std::filesystem::path& file);

struct found_best {
  std::optional<kept_best> best{};        ///< nothing: it has kept none
  std::vector<std::string> passed_over{}; ///< a line for each damaged file that is not needed
};

/// The best weights that a run has kept in this folder by a test of that history. Other files are not read,
/// and a damaged one is passed over if those that are found are certainly the best of the history.
/// Errors  std::runtime_error in one line: a file that may be needed is damaged, or of another kind.
found_best best_weights_in(const std::filesystem::path& folder, const tested_history& history = {});

} // namespace mailgrad
