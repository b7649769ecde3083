#include <mailgrad/engine/shard/row_log.hpp>

#include <algorithm>

namespace mailgrad {

void row_log::begin(std::uint64_t version) {
  known_ = version == last_ + 1 ? std::min<std::uint64_t>(known_ + 1, depth) : 1;
  last_ = version;
  newest().clear();
}

bool row_log::catch_up(std::uint64_t version, std::span<const float> from, std::span<float> to) const {
  if (version > last_ || last_ - version > known_) return false;
  for (std::uint64_t v = version + 1; v <= last_; ++v)
    for (const written& w : updates_[v % depth])
      std::copy_n(from.data() + w.first, w.width, to.data() + w.first);
  return true;
}

} // namespace mailgrad
