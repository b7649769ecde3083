#include <mailgrad/net/tls/socket_bio.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

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

const BIO_METHOD* socket_bio::method() {
  static const openssl::bio_method made = [] {
    auto m = openssl::made<openssl::bio_method>(
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "mailgrad socket"));
    BIO_meth_set_read_ex(m.get(), read);
    BIO_meth_set_write_ex(m.get(), write);
    BIO_meth_set_ctrl(m.get(), control);
    return m;
  }();
  return made.get();
}

socket_bio::~socket_bio() {
  if (!in_.empty()) spare_->ahead.give(std::move(in_));
  if (is_lent_) spare_->out.give(std::move(out_));
}

std::size_t socket_bio::begin_gathering() {
  if (is_lent_) return most_gathered;
  if (!spare_->out.any()) return record_bytes;
  is_lent_ = true;
  out_ = spare_->out.take();
  out_.reserve(most_gathered + record_bytes); // with what each record has besides
  return most_gathered;
}

openssl::bio socket_bio::make_bio() {
  auto b = openssl::made<openssl::bio>(BIO_new(method()));
  BIO_set_data(b.get(), this);
  BIO_set_init(b.get(), 1);
  return b;
}

int socket_bio::read(BIO* b, char* to, std::size_t room, std::size_t* count) {
  auto& self = *static_cast<socket_bio*>(BIO_get_data(b));
  auto* place = reinterpret_cast<std::byte*>(to);
  BIO_clear_retry_flags(b);
  if (!self.reads_) {
    BIO_set_retry_read(b);
    return 0;
  }
  if (!self.holds_input()) {
    const bool has_buffer = !self.in_.empty() || self.spare_->ahead.any();
    if (!self.reads_ahead_ || room >= ahead_bytes || !has_buffer) return self.receive(b, place, room, count);
    self.in_begin_ = self.in_end_ = 0;
    if (self.in_.empty()) self.in_ = self.spare_->ahead.take();
    self.in_.resize(ahead_bytes);
    if (self.receive(b, self.in_.data(), self.in_.size(), &self.in_end_) != 1) return 0;
  }
  *count = std::min(room, self.in_end_ - self.in_begin_);
  std::copy_n(self.in_.begin() + static_cast<std::ptrdiff_t>(self.in_begin_), *count, place);
  self.in_begin_ += *count;
  return 1;
}

void socket_bio::settle() {
  if (holds_input() || in_.empty()) return;
  spare_->ahead.give(std::move(in_));
  in_ = {};
  in_begin_ = in_end_ = 0;
}

int socket_bio::receive(BIO* b, std::byte* to, std::size_t room, std::size_t* count) {
  const ssize_t n = recv(socket_, to, room, MSG_DONTWAIT);
  if (n > 0) {
    *count = static_cast<std::size_t>(n);
    if (records_.follow({to, *count})) return 1;
    error_ = EMSGSIZE;
    has_ended_ = true;
    return 0;
  }
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    BIO_set_retry_read(b);
    return 0;
  }
  has_ended_ = true;
  if (n < 0 && error_ == 0) error_ = errno;
  return 0;
}

int socket_bio::write(BIO* b, const char* from, std::size_t size, std::size_t* count) {
  auto& self = *static_cast<socket_bio*>(BIO_get_data(b));
  const auto* first = reinterpret_cast<const std::byte*>(from);
  self.out_.insert(self.out_.end(), first, first + size);
  *count = size;
  return 1;
}

long socket_bio::control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

bool socket_bio::flush() {
  while (sent_ < out_.size()) {
    const ssize_t n = send(socket_, out_.data() + sent_, out_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) {
      sent_ += static_cast<std::size_t>(n);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
    // Whoever reads is told why, since the system says it once, and then only that the pipe is broken.
    if (error_ == 0 && errno != EPIPE) error_ = errno;
    has_ended_ = true;
    break;
  }
  if (std::exchange(is_lent_, false)) spare_->out.give(std::move(out_));
  out_ = {};
  sent_ = 0;
  return true;
}

std::string socket_bio::end_words() const {
  return error_ != 0 ? std::generic_category().message(error_) : "closed by the peer";
}

} // namespace mailgrad::net
