#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mailgrad {

/// Remembers which rows of a shard's tables the latest updates wrote. A block that holds an older version of
/// the tables catches up by copying these rows alone; all rows may be a thousand times as many.
///
/// The log remembers the last `depth` updates. A block that is further behind has to copy the whole tables.
/// In a steady state the log allocates nothing.
/// Threads one caller at a time.
class row_log {
public:
  static constexpr std::size_t depth = 64;

  /// Begins the entry of the update that makes `version`. If that is not the version after the last one, all
  /// earlier updates are forgotten.
  void begin(std::uint64_t version);
  /// Notes that this update writes `width` floats from `first` on, counted from the start of the shard.
  void note(std::size_t first, std::size_t width) { newest().push_back({first, width}); }

  /// Copies the rows that were written since `version` from `from`, which holds the latest version of the
  /// tables, to `to`, which holds `version`. Returns false, and copies nothing, if the log does not reach
  /// back that far.
  bool catch_up(std::uint64_t version, std::span<const float> from, std::span<float> to) const;

private:
  struct written {
    std::size_t first;
    std::size_t width;
  };

  std::vector<written>& newest() { return updates_[last_ % depth]; }

  std::uint64_t last_ = 0;  ///< the version that the newest update makes
  std::uint64_t known_ = 0; ///< the updates in the log, with the newest
  std::vector<std::vector<written>> updates_{depth};
};

} // namespace mailgrad
