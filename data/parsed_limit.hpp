#pragma once

#include <cstdint>
#include <filesystem>

namespace mailgrad {

/// The most memory that the samples of one file may take. A line of text takes up to twelve times its bytes
/// once it is parsed, and a packed file unpacks to a thousand times its own, so the size of a file says
/// little.
struct parsed_limit {
  std::uint64_t bytes = std::uint64_t{4} << 30;

  /// Errors  file_error, which says how to go on, if `found` bytes are more.
  void require(const std::filesystem::path& file, std::uint64_t found) const;
};

} // namespace mailgrad
