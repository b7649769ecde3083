#include <mailgrad/net/tls/tls_pipe.hpp>

#include <sys/socket.h>

#include <cerrno>

namespace mailgrad::net {

namespace {

constexpr std::size_t record_bytes = 16 << 10;            // the largest that TLS has
constexpr unsigned char of_handshake = 22, of_alert = 21; // the first byte of a record of TLS

moved later() { return {.what = moved::outcome::later}; }
moved some(std::size_t count, bool is_all) {
  return {.what = moved::outcome::some, .count = count, .is_all = is_all};
}

/// What a server with keys says to a peer that has not been heard. Anything else it says by a cipher or
/// behind an alert.
bool is_said_before_keys(refusal_code c) { return c == refusal_code::full || c == refusal_code::late; }

/// What the authorities are called that a client accepts; "" if it said none.
std::string authorities_of(const SSL* connection) {
  const STACK_OF(X509_NAME)* names = SSL_get0_peer_CA_list(connection);
  return sk_X509_NAME_num(names) > 0 ? openssl::common_name(sk_X509_NAME_value(names, 0)) : "";
}

constexpr std::byte handshake_record{of_handshake}, data_record{23};

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

tls_pipe::tls_pipe(int socket, std::shared_ptr<const tls_keys> keys, side s, std::uint64_t bytes_a_key,
                   std::shared_ptr<tls_buffers> spare)
    : handle_(socket), keys_(std::move(keys)), side_(s), bytes_a_key_(bytes_a_key), bytes_left_(bytes_a_key),
      spare_(std::move(spare)), socket_(socket, spare_),
      ssl_(openssl::made<openssl::connection>(
          SSL_new((s == side::server ? keys_->own().server : keys_->own().client).get()))) {
  SSL_set_app_data(ssl_.get(), &peer_);
  BIO* both_ways = socket_.make_bio().release();
  SSL_set_bio(ssl_.get(), both_ways, both_ways); // takes one reference where both are the same
  if (s == side::server) {
    SSL_set_accept_state(ssl_.get());
    return;
  }
  SSL_set_connect_state(ssl_.get());
  (void)SSL_do_handshake(ssl_.get()); // gathers the first record
  ERR_clear_error();
}

moved tls_pipe::read(std::span<const iovec> to) {
  switch (stage_) {
  case stage::unknown:
    if (moved m = look(); stage_ != stage::greeting) return m;
    return greet(to);
  case stage::greeting:
    return greet(to);
  case stage::open: {
    if (broken_) return *broken_;
    moved m = decrypt(to);
    socket_.settle();
    return m;
  }
  case stage::refused:
    return plain_pipe(handle_).read(to);
  case stage::listening:
    return listen();
  }
  return later();
}

/// Whether the peer speaks TLS at all, by its first byte.
moved tls_pipe::look() {
  std::array<std::byte, 8> first;
  const ssize_t n = recv(handle_, first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return later();
  const auto begin = n > 0 ? static_cast<unsigned char>(first[0]) : of_handshake;
  stage_ = stage::greeting; // which also notices an end
  if (begin == of_handshake || begin == of_alert) {
    socket_.begin_reading();
    return {};
  }
  const std::string_view said = as_text(byte_view{first}.first(static_cast<std::size_t>(n)));
  // Our frames begin with 'm'.
  if (said.front() != 'm') return refuse(fmt::format("'{}'", printable(said)));
  if (side_ == side::server) return refuse("a peer without keys");
  hears_plainly_ = true;
  stage_ = stage::listening;
  return listen();
}

moved tls_pipe::greet(std::span<const iovec> to) {
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_.get());
  const int error = SSL_get_error(ssl_.get(), done);
  socket_.flush();
  if (done != 1) return error == SSL_ERROR_WANT_READ ? later() : fail();
  if (!keys_->own().token.empty() && SSL_session_reused(ssl_.get()) != 1)
    return refuse(found_words("no token"));
  stage_ = stage::open;
  return decrypt(to);
}

moved tls_pipe::decrypt(std::span<const iovec> to) {
  if (has_read_ && !reads_much_ && to.front().iov_len > 0) {
    // Only now, since what a server says behind an alert must stay in the socket.
    reads_much_ = true;
    SSL_clear_mode(ssl_.get(), SSL_MODE_RELEASE_BUFFERS);
    socket_.read_ahead();
  }
  std::size_t count = 0;
  is_dry_ = false;
  for (const iovec& part : to)
    for (std::size_t done = 0; done < part.iov_len;) {
      std::size_t n = 0;
      ERR_clear_error();
      const int got =
          SSL_read_ex(ssl_.get(), static_cast<std::byte*>(part.iov_base) + done, part.iov_len - done, &n);
      if (got == 1) {
        has_read_ = true;
        done += n;
        count += n;
        continue;
      }
      is_dry_ = SSL_get_error(ssl_.get(), got) == SSL_ERROR_WANT_READ;
      if (is_dry_) return count > 0 ? some(count, true) : later();
      if (count == 0) return fail();
      broken_ = fail(); // what came before it is valid
      return some(count, false);
    }
  return some(count, false);
}

/// OpenSSL goes on no more.
moved tls_pipe::fail() {
  const unsigned long code = ERR_peek_last_error();
  const bool is_alert = code != 0 && ERR_GET_REASON(code) > SSL_AD_REASON_OFFSET;
  const std::string words = openssl::last_words();
  socket_.flush();
  if (code == 0 || (socket_.has_ended() && !is_alert))
    return {.what = moved::outcome::ended, .words = socket_.end_words()};
  if (stage_ == stage::open && (side_ == side::server || has_read_))
    return {.what = moved::outcome::failed, .words = fmt::format("TLS: {}", words)};
  if (side_ == side::server || !is_alert) return refuse(found_words(words));
  stage_ = stage::listening;
  local_reason_ = words;
  return listen();
}

moved tls_pipe::refuse(std::string found) {
  stage_ = stage::refused;
  return {.what = moved::outcome::failed,
          .words = "other keys",
          .refused =
              refusal{refusal_code::keys, fmt::format("TLS 1.3 with {}", keys_->words()), std::move(found)}};
}

/// Reads why the server refused, as far as it says so.
moved tls_pipe::listen() {
  std::array<std::byte, most_greeting_bytes> place;
  const iovec to{place.data(), place.size()};
  moved m = plain_pipe(handle_).read({&to, 1});
  if (m.what == moved::outcome::later) return m;
  try {
    reason_.feed(byte_view{place}.first(m.count));
  } catch (const protocol_error&) {
    m.what = moved::outcome::ended;
  }
  const bool is_for_us = !hears_plainly_ || (reason_.said() && is_said_before_keys(reason_.said()->code));
  if (reason_.said() && is_for_us)
    return {.what = moved::outcome::failed,
            .words = fmt::format("refuses: {}{}", reason_.said()->words(), advice_on(*reason_.said()))};
  if (m.what == moved::outcome::some && !reason_.said()) return later();
  return refuse(hears_plainly_ ? "a server without keys" : found_words(local_reason_));
}

moved tls_pipe::write(std::span<const iovec> from) {
  if (!socket_.flush()) return later();
  if (stage_ == stage::refused) return plain_pipe(handle_).write(from);
  if (stage_ != stage::open) return {.what = moved::outcome::not_yet};
  const std::size_t taken = broken_ ? 0 : encrypt(from);
  if (broken_) return *broken_;
  socket_.flush();
  return some(taken, false);
}

/// Takes as much as goes in one go. Small parts, such as headers, share a record with what follows.
std::size_t tls_pipe::encrypt(std::span<const iovec> from) {
  const std::size_t most = socket_.begin_gathering();
  std::size_t taken = 0;
  bytes& small = spare_->small;
  small.clear();
  for (const iovec& part : from) {
    byte_view left{static_cast<const std::byte*>(part.iov_base), std::min(part.iov_len, most - taken)};
    taken += left.size();
    if (const std::size_t head = std::min(left.size(), record_bytes - small.size());
        !small.empty() || left.size() < record_bytes) {
      small.insert(small.end(), left.begin(), left.begin() + static_cast<std::ptrdiff_t>(head));
      left = left.subspan(head);
      if (small.size() == record_bytes) {
        encrypt_part(small);
        small.clear();
      }
    }
    if (!left.empty() && small.empty() && left.size() >= record_bytes) {
      const std::size_t whole = left.size() - left.size() % record_bytes;
      encrypt_part(left.first(whole));
      left = left.subspan(whole);
    }
    small.insert(small.end(), left.begin(), left.end());
    if (taken >= most) break;
  }
  encrypt_part(small);
  return taken;
}

void tls_pipe::encrypt_part(byte_view part) {
  while (!part.empty() && !broken_) {
    std::size_t n = 0;
    ERR_clear_error();
    if (SSL_write_ex(ssl_.get(), part.data(), part.size(), &n) != 1) { // nothing waits here
      broken_ = fail();
      return;
    }
    part = part.subspan(n);
    bytes_left_ -= std::min<std::uint64_t>(bytes_left_, n);
    if (bytes_left_ > 0) continue;
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    bytes_left_ = bytes_a_key_;
  }
}

std::string tls_pipe::found_words(const std::string& reason) const {
  if (!peer_.token_name.empty()) return "token " + peer_.token_name;
  if (!peer_.certificate.empty()) return peer_.certificate;
  if (const std::string theirs = authorities_of(ssl_.get());
      !theirs.empty() && keys_->words().find('\'' + theirs + '\'') == std::string::npos)
    return fmt::format("a peer with a certificate of '{}'", theirs);
  return fmt::format("none ({})", reason);
}

} // namespace mailgrad::net
