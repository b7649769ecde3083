#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <stdexcept>
#include <string_view>

namespace mailgrad::fuzz {

/// The bytes that a fuzzer makes up, read as numbers and pieces. Behind the end there are zeros and empty
/// pieces, so a target needs no case for a short input.
class fuzz_input {
public:
  explicit fuzz_input(std::span<const std::byte> bytes) : left_(bytes) {}

  bool is_empty() const noexcept { return left_.empty(); }
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint64_t u64() { return number(8); }
  /// At most so many of the next bytes.
  std::span<const std::byte> take(std::size_t count) {
    const auto taken = left_.first(std::min(count, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  std::span<const std::byte> rest() { return take(left_.size()); }

private:
  /// In little endian.
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t n = 0;
    std::size_t shift = 0;
    for (const std::byte b : take(bytes)) {
      n |= std::uint64_t{static_cast<std::uint8_t>(b)} << shift;
      shift += 8;
    }
    return n;
  }

  std::span<const std::byte> left_;
};

inline std::string_view as_text(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Fails the input that is being tried unless `holds`: a fuzzer keeps it, and a test reports it.
inline void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

/// A refusal is one line, whatever it quotes.
inline void require_one_line(const std::exception& refusal) {
  require(std::string_view(refusal.what()).find('\n') == std::string_view::npos,
          "a refusal is more than a line");
}

} // namespace mailgrad::fuzz
