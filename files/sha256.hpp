#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace mailgrad {

/// 64 hexadecimal digits.
/// Source  FIPS 180-4.
std::string sha256(std::span<const std::byte> bytes);

/// Of the bytes of a file, which may be larger than memory.
///
/// Errors  std::system_error if it cannot be read.
std::string sha256_of(const std::filesystem::path& file);

} // namespace mailgrad
