#pragma once

#include <mailgrad/cli/commands/train_words.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/account/training_progress.hpp>
#include <mailgrad/lab/sweep/sweep_file.hpp>
#include <mailgrad/lab/sweep/sweep_row.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// The cells of a sweep as runs of `mailgrad lab run`. Cells with the same data share them in memory.
///
/// Threads run(): several at once; the rest: one.
class sweep_cells {
public:
  /// Parses and plans every cell. `stop` ends that early.
  ///
  /// Errors  std::invalid_argument, file_error in one line that names the key: what `mailgrad lab run` would
  ///         refuse.
  sweep_cells(const lab::sweep& s, const std::function<bool()>& stop);

  /// The steps that a cell takes.
  std::uint64_t steps_of(std::size_t cell) const { return steps_[cell]; }

  struct outcome {
    lab::sweep_row row;
    std::vector<lab::curve_point> curve;
  };
  /// Runs a cell. None if `stop` ended it. A failure is an outcome, too.
  std::optional<outcome> run(std::size_t cell, const std::function<void(const training_progress&)>& shown,
                             const std::function<bool()>& stop);

  /// The SHA-256 of all that the cells read, as add_content() has it.
  const std::map<std::string, std::string>& content() const noexcept { return content_; }
  /// The remarks on the data that were read, each once.
  const std::vector<std::string>& remarks() const noexcept { return remarks_; }

private:
  train_words words_of(std::size_t cell) const;
  std::shared_ptr<const data_split> data_of(std::size_t cell, const train_words& w);
  std::string data_key_of(std::size_t cell, const train_words& w) const;
  void plan(std::size_t cell);
  void train(std::size_t cell, outcome& made, const std::function<void(const training_progress&)>& shown,
             const std::function<bool()>& stop);

  const lab::sweep& sweep_;
  std::vector<std::uint64_t> steps_;
  std::vector<std::string> remarks_;
  std::map<std::string, std::string> content_;
  std::mutex mutex_; ///< guards the data below
  std::map<std::string, std::weak_ptr<const data_split>> data_;
  std::deque<std::shared_ptr<const data_split>> recent_; ///< kept for the next cells
};

/// The command that repeats a cell alone.
std::string command_of(const lab::sweep& s, std::size_t cell);

} // namespace mailgrad
