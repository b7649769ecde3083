#pragma once

#include <array>
#include <cstdint>
#include <cstdio>

namespace mailgrad {

/// A number of bytes in the largest unit that leaves no zero in front: "4.0 GiB", "1.5 MiB", "64 bytes". The
/// text is built without the heap, because messages about exhausted memory use it.
class byte_count {
public:
  explicit byte_count(std::uint64_t count) noexcept {
    constexpr std::array units{"KiB", "MiB", "GiB", "TiB"};
    auto figure = static_cast<double>(count);
    std::snprintf(text_.data(), text_.size(), "%.0f bytes", figure);
    for (const char* unit : units) {
      if (figure < 1024) return;
      figure /= 1024;
      std::snprintf(text_.data(), text_.size(), "%.1f %s", figure, unit);
    }
  }

  const char* text() const noexcept { return text_.data(); }

private:
  std::array<char, 32> text_{};
};

} // namespace mailgrad
