#include <mailgrad/net/tls/clear_records.hpp>

#include <span>

namespace mailgrad::net {

namespace {

constexpr std::byte handshake_record{22}, data_record{23};

std::size_t number_of(std::span<const std::byte> digits) {
  std::size_t n = 0;
  for (const std::byte b : digits) n = n << 8 | std::to_integer<std::size_t>(b);
  return n;
}

} // namespace

bool clear_records::follow(byte_view next) {
  for (const std::byte b : next) {
    if (has_cipher_) return true;
    if (record_left_ == 0) {
      record_[record_bytes_++] = b;
      if (record_bytes_ < record_.size()) continue;
      record_bytes_ = 0;
      record_left_ = number_of(std::span(record_).subspan(3));
      has_cipher_ = record_[0] == data_record;
      continue;
    }
    --record_left_;
    if (record_[0] != handshake_record) continue;
    if (message_left_ > 0) {
      --message_left_;
      continue;
    }
    message_[message_bytes_++] = b;
    if (message_bytes_ < message_.size()) continue;
    message_bytes_ = 0;
    message_left_ = number_of(std::span(message_).subspan(1));
    if (message_left_ > most_greeting_message) return false;
  }
  return true;
}

} // namespace mailgrad::net
