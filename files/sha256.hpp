#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace mailgrad {

/// 64 hexadecimal digits.
/// Source  FIPS 180-4.
std::string sha256(std::span<const std::byte> bytes);

} // namespace mailgrad
