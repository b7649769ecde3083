#include <mailgrad/net/frame.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mailgrad::net {

std::uint32_t checksum_of(byte_view data) noexcept {
  return static_cast<std::uint32_t>(XXH3_64bits(data.data(), data.size()));
}

} // namespace mailgrad::net
