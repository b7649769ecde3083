#include <mailgrad/net/stream/stream_connection.hpp>
#include <mailgrad/net/stream/stream_host.hpp>

#include <exception>

namespace mailgrad::net {

namespace {

constexpr std::size_t most_leaving = 256; // those beyond are closed at once
constexpr int most_reads_of_leaving = 16;

} // namespace

std::span<const iovec> outbox::gather(std::span<iovec> parts) const {
  std::size_t count = 0, skip = begun_;
  for (const outgoing& frame : frames_)
    for (byte_view part : {byte_view{frame.header}, frame.content()}) {
      const std::size_t gone = std::min(skip, part.size());
      skip -= gone;
      part = part.subspan(gone);
      if (part.empty()) continue;
      if (count == parts.size()) return parts;
      parts[count++] = {const_cast<std::byte*>(part.data()), part.size()}; // one struct for both ways
    }
  return parts.first(count);
}

void outbox::sent(std::size_t count) {
  begun_ += count;
  while (!frames_.empty() && begun_ >= size_of(frames_.front())) {
    begun_ -= size_of(frames_.front());
    bytes_ -= size_of(frames_.front());
    frames_.pop_front();
  }
}

bool stream_connection::turn() {
  // A pipe whose socket does not tell it may take something again.
  const bool room = is_blocked_ && bytes_->tells_room_as_input() && bytes_->has_room();
  if (room) is_blocked_ = false;
  if (!host) return leave_nothing(), false;
  if (room) host->flush(shared_from_this());
  return host ? host->read(shared_from_this()) || room : room;
}

bool stream_connection::send() {
  std::array<iovec, 2 * outbox::most_frames> parts;
  while (!out.empty() || bytes_->holds_output()) {
    if (is_blocked_) return false;
    const moved m = bytes_->write(out.gather(parts));
    switch (m.what) {
    case moved::outcome::some:
      out.sent(m.count);
      break;
    case moved::outcome::later:
      wait_writable();
      return false;
    case moved::outcome::not_yet:
      if (host) return false;
      if (!bytes_->give_up_greeting()) out.clear(); // who leaves does not wait to be greeted
      break;
    case moved::outcome::ended:
    case moved::outcome::failed:
      // What the peer said last may still be there to be read, and then the end. But the system gives its
      // reason to one of both.
      if (words_of_failure.empty()) words_of_failure = m.words;
      is_shut_ = true;
      out.clear();
    }
  }
  return true;
}

void stream_connection::wait_readable() {
  if (is_hot || is_held || !is_open()) return;
  // There may be something to do that the socket will not tell of.
  const bool input = bytes_->call_for_input();
  const bool room = is_blocked_ && bytes_->tells_room_as_input() && bytes_->call_for_room();
  if (input || room) return look_soon();
  if (std::exchange(is_waiting_, true)) return;
  socket_.async_wait(stream_socket::wait_read, [self = shared_from_this()](error_code failed) {
    self->is_waiting_ = false;
    if (!failed) self->look();
  });
}

void stream_connection::look_soon() {
  if (std::exchange(looks_soon_, true)) return;
  asio::post(loop_->io(), [self = shared_from_this()] {
    self->looks_soon_ = false;
    self->look();
  });
}

void stream_connection::look() {
  if (is_open() && !turn()) wait_readable();
}

void stream_connection::wait_writable() {
  if (std::exchange(is_blocked_, true)) return;
  if (bytes_->tells_room_as_input()) return wait_readable();
  socket_.async_wait(stream_socket::wait_write, [self = shared_from_this()](error_code failed) {
    self->is_blocked_ = false;
    if (failed || !self->is_open()) return;
    if (!self->host) return self->leave_nothing();
    self->host->flush(self);
  });
}

void stream_connection::leave(instant farewell) {
  host = nullptr;
  is_held = false;
  if (loop_->leaving().size() >= most_leaving) return close();
  const auto self = shared_from_this();
  loop_->leaving().insert(self);
  end_.expires_after(of_timer(farewell));
  end_.async_wait([self](error_code cancelled) {
    if (!cancelled) self->close();
  });
  leave_nothing();
}

/// Closing while something is unread would make the kernel throw away what is under way, the last words too.
/// Nobody is told any more of what goes wrong.
void stream_connection::leave_nothing() try {
  error_code ignored;
  if (send() && !std::exchange(is_shut_, true)) socket_.shutdown(stream_socket::shutdown_send, ignored);
  const std::span<std::byte> room = loop_->scratch();
  const iovec to{room.data(), room.size()};
  for (int i = 0; i < most_reads_of_leaving; ++i) {
    const moved m = bytes_->read({&to, 1});
    if (m.what == moved::outcome::ended || m.what == moved::outcome::failed) return close();
    if (m.what == moved::outcome::later) break;
  }
  wait_readable();
} catch (const std::exception&) {
  close();
}

void stream_connection::close() {
  error_code ignored;
  socket_.close(ignored);
  end_.cancel();
  out.clear();
  loop_->leaving().erase(shared_from_this());
}

} // namespace mailgrad::net
