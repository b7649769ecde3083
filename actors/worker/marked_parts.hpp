#pragma once

#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/files/archive.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace mailgrad {

/// A worker's part of a checkpoint, as it was when the worker set its mark.
struct marked_part {
  std::uint64_t checkpoint = 0;
  std::shared_ptr<saved_fields> fields; ///< without the report
  worker_report report;                 ///< up to its last step, of which the loss may still be missing
};

/// Parts of checkpoints that wait for the losses of steps before their mark. A worker may push a gradient
/// before its step has ended, and what it tells of the run must not depend on that.
///
/// Threads one caller at a time.
class marked_parts {
public:
  bool empty() const noexcept { return parts_.empty(); }
  void add(marked_part x) { parts_.push_back(std::move(x)); }
  /// A step has ended with this loss.
  void note_loss(std::uint64_t step, float loss, std::size_t samples) {
    for (marked_part& p : parts_)
      if (step <= p.report.steps) p.report.note_loss(loss, samples);
  }
  /// Takes those whose steps have all ended, of which `step` was the last, in the order of their marks.
  std::vector<marked_part> take(std::uint64_t step) {
    std::vector<marked_part> whole;
    while (!parts_.empty() && parts_.front().report.steps <= step) {
      whole.push_back(std::move(parts_.front()));
      parts_.erase(parts_.begin());
    }
    return whole;
  }

private:
  std::vector<marked_part> parts_; ///< in the order of their marks
};

} // namespace mailgrad
