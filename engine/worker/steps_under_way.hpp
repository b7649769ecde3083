#pragma once

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/model/gradient.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace mailgrad {

/// A step that a worker has begun.
struct begun_step {
  std::shared_ptr<gradient> values; ///< that the step computes
  std::uint64_t number = 0;         ///< of the worker's mini-batches
  std::size_t samples = 0;          ///< of its batch
  instant since{0};                 ///< when it was begun
  bool repeats = false;             ///< it computes a batch once more, for a sample
  bool pushed = false;              ///< the gradient was pushed before it was there
};

/// The steps of a worker that have begun and not ended. They end in the order in which they were begun.
///
/// Threads one caller at a time.
class steps_under_way {
public:
  /// At most `most` at once.
  explicit steps_under_way(std::size_t most = 1) : most_(most) { steps_.reserve(most); }

  bool empty() const noexcept { return steps_.empty(); }
  bool full() const noexcept { return steps_.size() >= most_; }
  /// Whether a gradient is computed that has not been pushed.
  bool compute() const noexcept { return !std::ranges::all_of(steps_, &begun_step::pushed); }

  void begin(begun_step x) { steps_.push_back(std::move(x)); }
  const begun_step& oldest() const { return steps_.front(); }
  begun_step& newest() { return steps_.back(); }
  begun_step take_oldest() {
    begun_step ended = std::move(steps_.front());
    steps_.erase(steps_.begin());
    return ended;
  }
  void clear() noexcept { steps_.clear(); }

private:
  std::size_t most_;
  std::vector<begun_step> steps_; ///< the oldest first
};

} // namespace mailgrad
