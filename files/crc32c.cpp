#include <mailgrad/files/crc32c.hpp>

#include <boost/crc.hpp>

namespace mailgrad {

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> sum;
  sum.process_bytes(bytes.data(), bytes.size());
  return sum.checksum();
}

} // namespace mailgrad
