#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mailgrad {

/// Which rows of a shard's tables each of its latest updates wrote: with it, a block that holds an older
/// version of the tables catches up by copying these rows, where all of them may be a thousand times as many.
///
/// It remembers as many updates as a ring of `depth`; who is further behind copies everything. In a steady
/// state it allocates nothing.
/// Threads one caller at a time.
class row_log {
public:
  static constexpr std::size_t depth = 64;

  /// An update begins that makes `version`. One that does not follow the last makes all before it forgotten.
  void begin(std::uint64_t version);
  /// It writes `width` floats from `first` on, counted from the start of the shard.
  void note(std::size_t first, std::size_t width) { newest().push_back({first, width}); }

  /// Copies to `to`, which holds the tables of `version`, what was written since, from `from`, which holds
  /// the last version that began. False if that is no longer known; nothing was copied then.
  bool catch_up(std::uint64_t version, std::span<const float> from, std::span<float> to) const;

private:
  struct written {
    std::size_t first;
    std::size_t width;
  };

  std::vector<written>& newest() { return updates_[last_ % depth]; }

  std::uint64_t last_ = 0;  ///< the version that the newest update makes
  std::uint64_t known_ = 0; ///< updates behind and with it that are known
  std::vector<std::vector<written>> updates_{depth};
};

} // namespace mailgrad
