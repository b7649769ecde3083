#include <mailgrad/files/tf_record.hpp>

#include <mailgrad/files/crc32c.hpp>
#include <mailgrad/files/little_endian.hpp>

#include <bit>
#include <cstdint>

namespace mailgrad {

namespace {

/// The mask keeps the checksum of bytes that contain checksums from being a trivial one.
void append_masked_crc(std::string& to, std::string_view bytes) {
  const std::uint32_t masked = std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
  append_number<4>(to, masked);
}

} // namespace

std::string tf_record(std::string_view data) {
  std::string record;
  append_number<8>(record, data.size());
  append_masked_crc(record, std::string(record));
  record += data;
  append_masked_crc(record, data);
  return record;
}

} // namespace mailgrad
