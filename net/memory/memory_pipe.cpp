#include <mailgrad/net/memory/memory_pipe.hpp>

#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/memory/region_offer.hpp>

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace mailgrad::net {

namespace {

/// A read ends at a descriptor, and there is one at most.
constexpr int most_reads_of_calls = 3;

} // namespace

memory_pipe::memory_pipe(int socket, shared_region region, side s, std::shared_ptr<shared_heap> lends,
                         std::shared_ptr<far_pages> pages)
    : socket_(socket), memory_(std::make_shared<peer_memory>(std::move(lends), std::move(pages))),
      region_(std::move(region)), out_(s == side::server ? region_.of_server() : region_.of_client()),
      in_(s == side::server ? region_.of_client() : region_.of_server()) {
  region_.close_descriptor();
  memory_->ask_by([this] { hear_calls(); });
}

memory_pipe::~memory_pipe() { memory_->ask_by(nullptr); }

moved memory_pipe::read(std::span<const iovec> to) try {
  if (!broken_.empty()) return failure();
  std::size_t count = in_.read(to);
  if (std::exchange(calls_, false)) {
    in_.end_call();
    hear_calls();
    // What the peer wrote before it called or closed is here now.
    if (count == 0) count = in_.read(to);
  }
  if (in_.is_called()) call_peer();
  if (count == 0 && hung_up_) return {.what = moved::outcome::ended, .words = "closed by the peer"};
  if (count == 0) return {.what = moved::outcome::later};
  std::size_t room = 0;
  for (const iovec& part : to) room += part.iov_len;
  return {.what = moved::outcome::some, .count = count, .is_all = count < room};
} catch (const protocol_error& e) {
  broken_ = e.what();
  return failure();
}

moved memory_pipe::write(std::span<const iovec> from) try {
  if (!broken_.empty()) return failure();
  if (hung_up_) return {.what = moved::outcome::ended, .words = "closed by the peer"};
  const std::size_t count = out_.write(from);
  if (count == 0) return {.what = moved::outcome::later};
  if (out_.is_called()) call_peer();
  return {.what = moved::outcome::some, .count = count};
} catch (const protocol_error& e) {
  broken_ = e.what();
  return failure();
}

// Whoever waits beside something broken is told to look, and then hears of it.

bool memory_pipe::call_for_input() try {
  if (!broken_.empty()) return true;
  const bool is_there = in_.call();
  calls_ = !is_there;
  return is_there;
} catch (const protocol_error& e) {
  broken_ = e.what();
  return true;
}

bool memory_pipe::has_room() try {
  return !broken_.empty() || hung_up_ || out_.has_room();
} catch (const protocol_error& e) {
  broken_ = e.what();
  return true;
}

bool memory_pipe::call_for_room() try {
  return !broken_.empty() || hung_up_ || out_.call();
} catch (const protocol_error& e) {
  broken_ = e.what();
  return true;
}

moved memory_pipe::failure() const { return {.what = moved::outcome::failed, .words = broken_}; }

/// If the socket takes no more bytes, the peer has enough that will wake it.
void memory_pipe::call_peer() const noexcept {
  const char call = 1;
  (void)send(socket_, &call, sizeof call, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void memory_pipe::hear_calls() noexcept {
  descriptor heap;
  ssize_t count = 1;
  for (int i = 0; count > 0 && i < most_reads_of_calls; ++i) {
    count = take_calls(socket_, heap);
    if (heap) memory_->take(std::move(heap));
  }
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) hung_up_ = true;
}

} // namespace mailgrad::net
