#pragma once

#include <mailgrad/engine/account/metrics_line.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace mailgrad {

/// The lines of a run, evenly thinned as they become too many. Lines with a test go last, and the last line
/// always stays.
class metrics_curve {
public:
  static constexpr std::size_t most = 200;

  void add(const metrics_line& line);
  /// At most `most` of the lines, in their order.
  std::vector<metrics_line> lines() const;

private:
  std::vector<metrics_line> kept_;   ///< fewer than `most`
  std::optional<metrics_line> last_; ///< unless it is kept
  std::uint64_t stride_ = 1;         ///< one in so many lines without a test is kept
  std::uint64_t untested_ = 0;       ///< lines without a test so far
};

} // namespace mailgrad
