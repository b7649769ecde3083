#pragma once

#include <cstdint>
#include <string_view>

namespace mailgrad {

/// The checksum CRC-32C (Castagnoli) of some bytes.
///
/// Source  RFC 3720, section 12.1, with examples in its appendix B.4.
std::uint32_t crc32c(std::string_view bytes);

} // namespace mailgrad
