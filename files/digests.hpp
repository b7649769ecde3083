#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
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
/// Errors  archive_error in one line if the bytes begin with another magic, are of another version or length,
///         or are damaged.
std::string_view unsealed(const seal& s, std::span<const std::byte> bytes);

/// 64 hexadecimal digits.
/// Source  FIPS 180-4.
std::string sha256(std::span<const std::byte> bytes);

/// Of the bytes of a file, which may be larger than memory.
/// Errors  std::system_error if it cannot be read.
std::string sha256_of(const std::filesystem::path& file);

/// The checksum CRC-32C (Castagnoli) of some bytes.
/// Source  RFC 3720, section 12.1, with examples in its appendix B.4.
std::uint32_t crc32c(std::string_view bytes);

} // namespace mailgrad
