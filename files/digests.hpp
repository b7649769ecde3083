#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace mailgrad {

/// 64 hexadecimal digits.
/// Source  FIPS 180-4.
std::string sha256(std::span<const std::byte> bytes);

/// Of the bytes of a file, which may be larger than memory.
///
/// Errors  std::system_error if it cannot be read.
std::string sha256_of(const std::filesystem::path& file);

/// The checksum CRC-32C (Castagnoli) of some bytes.
///
/// Source  RFC 3720, section 12.1, with examples in its appendix B.4.
std::uint32_t crc32c(std::string_view bytes);

} // namespace mailgrad
