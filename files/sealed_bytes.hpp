#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// What stands before the content of sealed bytes.
struct seal {
  std::string_view magic; ///< 8 characters that name the format
  std::uint32_t format;   ///< its version
  std::string_view what;  ///< what errors call the bytes: "graph"
};

/// Puts a header before `content`: the magic, the version, the length, and a CRC-32 of all of it.
/// docs/graph_format.md has the bytes.
std::vector<std::byte> sealed(const seal& s, std::string_view content);

/// The content, in the memory of `bytes`.
///
/// Errors  archive_error in one line if the bytes begin with another magic, are of another version or length,
///         or are damaged.
std::string_view unsealed(const seal& s, std::span<const std::byte> bytes);

} // namespace mailgrad
