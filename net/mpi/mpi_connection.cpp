#include <mailgrad/net/mpi/mpi_connection.hpp>

#include <mailgrad/net/ending.hpp>

#include <fmt/format.h>

#include <utility>

namespace mailgrad::net {

namespace {

constexpr std::size_t most_received_bytes = frame_header_bytes + most_piece_bytes;

} // namespace

/// The body is received at once, since its place may be gone after any other event of the session. It is a
/// piece at most, and the sender has all of it.
bool mpi_connection::read(endpoint* at, instant now) {
  if (ended_) return false;
  const auto message = mpi_->look(route_.peer, route_.in);
  if (!message) return false;
  const std::size_t count = message->bytes;
  if (count > most_received_bytes) {
    ended_ = true;
    throw protocol_error(
        fmt::format("mpi: expected messages of at most {} bytes, found {}", most_received_bytes, count));
  }
  const std::span<std::byte> place = at && count > 0 ? at->place(id_) : std::span<std::byte>{};
  if (count > 0 && place.size() >= count) {
    mpi_->receive(route_.peer, route_.in, place.first(count));
    at->filled(id_, count, now);
    return true;
  }
  scratch_.resize(count);
  mpi_->receive(route_.peer, route_.in, scratch_);
  if (count == 0)
    ended_ = true;
  else if (at)
    at->received(id_, scratch_, now);
  return true;
}

void mpi_connection::send(outgoing frame) {
  under_way& u = sent_.emplace_back();
  u.frame = std::move(frame);
  const byte_view content = u.frame.content();
  under_way_ += content.size();
  if (content.size() > most_joined_bytes) {
    u.parts[0] = send_part(u.frame.header);
    u.parts[1] = send_part(content);
    return;
  }
  u.joined.reserve(frame_header_bytes + content.size());
  u.joined.assign(u.frame.header.begin(), u.frame.header.end());
  u.joined.insert(u.joined.end(), content.begin(), content.end());
  u.parts[0] = send_part(u.joined);
}

mpi_connection::part mpi_connection::send_part(byte_view data) {
  return {mpi_->send(route_.peer, route_.out, data), false};
}

bool mpi_connection::let_go() {
  bool any = false;
  while (!sent_.empty() && is_gone(sent_.front())) {
    under_way_ -= sent_.front().frame.content().size();
    sent_.pop_front();
    any = true;
  }
  return any;
}

bool mpi_connection::is_gone(under_way& frame) {
  for (part& p : frame.parts)
    if (!p.gone && !(p.gone = mpi_->is_done(p.request))) return false;
  return true;
}

void mpi_connection::end() {
  if (std::exchange(said_end_, true)) return;
  sent_.emplace_back().parts[0] = send_part({});
}

} // namespace mailgrad::net
