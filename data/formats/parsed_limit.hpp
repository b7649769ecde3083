#pragma once

#include <cstdint>
#include <filesystem>

namespace mailgrad {

/// The most memory that the samples of one file may take. The size of a file says little about it: a parsed
/// line of text takes up to twelve times its bytes, and a packed file unpacks to a thousand times its size.
struct parsed_limit {
  std::uint64_t bytes = std::uint64_t{4} << 30;

  /// Errors  file_error if `found` bytes are more than that; its message says what to do.
  void require(const std::filesystem::path& file, std::uint64_t found) const;
};

} // namespace mailgrad
