#pragma once

#include <mailgrad/engine/account/run_event.hpp>
#include <mailgrad/files/archive.hpp>

#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// Weights, and how they did in their test.
struct kept_best {
  evaluation_made test;
  std::vector<float> weights;

  void keep(archive& a);
};

/// The best weights that were tested during a run: those of the lowest loss, of equals the first.
///
/// Threads  any.
class best_weights {
public:
  /// The file beside the checkpoints of a run, which keeps its best weights when the process ends.
  static constexpr std::string_view file_name = "best-weights.safetensors";

  /// With a folder, they are kept there as well, each time that better ones come.
  explicit best_weights(std::optional<std::filesystem::path> folder, std::optional<kept_best> before = {});

  /// Takes these weights, float32[size of the layout], if they did better than all before. A loss that is no
  /// number is never better.
  void offer(const evaluation_made& test, std::span<const float> weights);

  /// The best so far; nothing if no test was made.
  std::optional<kept_best> best() const;

  /// Why they could not be kept in the folder the last time; empty if they could.
  std::string failure() const;

private:
  const std::optional<std::filesystem::path> folder_;
  mutable std::mutex mutex_; ///< guards the members below
  std::optional<kept_best> best_;
  std::string failure_;
};

/// The best weights that a run has kept in this folder; nothing if there are none.
///
/// Errors  std::runtime_error in one line: the file is damaged, or of another kind.
std::optional<kept_best> best_weights_in(const std::filesystem::path& folder);

} // namespace mailgrad
