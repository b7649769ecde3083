#pragma once

#include <mailgrad/net/frame_fields.hpp>

#include <cstdint>

namespace mailgrad::net {

/// The low half of XXH3-64 with seed 0, which keeps pace with memory, as a CRC does not.
///
/// It finds damage by chance, not by intent.
std::uint32_t checksum_of(byte_view data) noexcept;

} // namespace mailgrad::net
