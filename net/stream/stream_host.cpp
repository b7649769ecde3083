#include <mailgrad/net/stream/stream_host.hpp>

#include <sys/socket.h>

#include <exception>

namespace mailgrad::net {

namespace {

constexpr std::size_t most_read_a_turn = 1 << 20;
constexpr int most_batches_a_turn = 8; // of an outbox, so 4 MiB
/// Behind the rest of a piece only the next header is wanted, since what lies behind that is copied.
constexpr std::size_t read_behind_place = 4 << 10;
constexpr std::chrono::milliseconds pause_without_descriptors{100};
constexpr std::size_t most_leaving = 256; // those beyond are closed at once
constexpr int most_reads_of_leaving = 16;

/// Takes connections at a socket that listens.
/// Threads that of the network.
class stream_listener final : public connection_maker, public std::enable_shared_from_this<stream_listener> {
public:
  stream_listener(asio::io_context& io, descriptor listening, std::function<void(descriptor socket)> told)
      : socket_(io), retry_(io), told_(std::move(told)) {
    socket_.assign(listening.number());
    listening.release();
  }

  void begin() override {
    socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [self = shared_from_this()](error_code failed) {
                         if (!failed && self->socket_.is_open()) self->take_one();
                       });
  }
  void stop() override {
    error_code ignored;
    socket_.close(ignored);
    retry_.cancel();
  }

private:
  /// As long as the process has no free descriptor, accepting fails at once, again and again.
  void take_one() {
    descriptor taken = accepted_at(socket_.native_handle());
    if (!taken && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      retry_.expires_after(pause_without_descriptors);
      return retry_.async_wait([self = shared_from_this()](error_code cancelled) {
        if (!cancelled && self->socket_.is_open()) self->begin();
      });
    }
    if (taken) told_(std::move(taken));
    if (socket_.is_open()) begin();
  }

  asio::posix::stream_descriptor socket_;
  asio::steady_timer retry_;
  std::function<void(descriptor socket)> told_;
};

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
  // The pipe may take something again although its socket does not say so.
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

descriptor accepted_at(int listener) noexcept {
  return descriptor(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

void stream_host::take_at(descriptor listening, std::function<void(descriptor)> told) {
  const auto made = std::make_shared<stream_listener>(loop_->io(), std::move(listening), std::move(told));
  listeners_.push_back(made);
  made->begin();
}

void stream_host::dial(instant patience) {
  const connection_id id = loop_->next_id();
  const plane p = client_->wants_bulk() ? plane::bulk : plane::control;
  if (p == plane::bulk) client_->begin_bulk(id);
  const auto made = dialer_for(id, p, patience); // which may be forgotten when it begins
  dialer_ = made;
  made->begin();
}

stream_host::connection_ptr stream_host::open(connection_id id, const std::string& from, stream_socket socket,
                                              std::unique_ptr<byte_pipe> pipe,
                                              std::shared_ptr<common_memory> memory) {
  if (const auto last = server_ ? server_->give_way() : std::nullopt) {
    const connection_ptr gone = connections_.at(*last); // which that may lose
    flush(gone);
  }
  const auto c = std::make_shared<stream_connection>(id, *loop_, std::move(socket), std::move(pipe));
  c->host = this;
  connections_.emplace(id, c);
  at_->opened(id, from, loop_->now());
  if (memory && at_) at_->shares(id, std::move(memory));
  if (at_) flush(c);
  if (at_) loop_->watch(*this);
  if (has(c)) loop_->heat(c);
  return c;
}

/// The one place where an exception becomes the end of a connection: whatever a peer sends, the others go on.
template <class Work>
auto stream_host::guarded(const connection_ptr& c, Work work) -> decltype(work()) {
  const auto self = shared_from_this();
  try {
    return work();
  } catch (const std::exception& e) {
    if (has(c))
      lose(c, {.what = moved::outcome::failed, .words = fmt::format("it cannot be served: {}", e.what())});
    return decltype(work())();
  }
}

bool stream_host::read(const connection_ptr& c) {
  return guarded(c, [&] { return read_some(c); });
}

void stream_host::flush(const connection_ptr& c) {
  guarded(c, [&] { send_all(c); });
}

bool stream_host::read_some(const connection_ptr& c) {
  const bool was_called = c->is_held && c->is_called;
  bool any = false;
  for (std::size_t count = 0; has(c) && count < most_read_a_turn;) {
    if (c->is_held && !std::exchange(c->is_called, false)) break;
    if (!at_->reads(c->id(), loop_->now())) {
      hold(c);
      break;
    }
    if (std::exchange(c->is_held, false)) held_.erase(c->place_among_held);
    const std::span<std::byte> place = at_->place(c->id());
    std::span<std::byte> behind = loop_->scratch();
    if (!place.empty()) behind = behind.first(at_->reads_behind(c->id()) ? read_behind_place : 0);
    const std::array<iovec, 2> to{iovec{place.data(), place.size()}, iovec{behind.data(), behind.size()}};
    const moved m = c->bytes().read(to);
    if (m.what == moved::outcome::later) break;
    any = true;
    if (m.what != moved::outcome::some) {
      lose(c, m);
      break;
    }
    count += m.count;
    if (!take(c, place, m.count) || m.is_all) break;
  }
  // What a read answers by itself, and what has waited for it, goes now.
  if (has(c) && (any || !c->out.empty() || c->bytes().holds_output())) flush(c);
  if (was_called && !any && at_ && !held_.empty()) call_held();
  if (!any || !at_) return any;
  if (has(c)) loop_->heat(c);
  pump();
  return true;
}

/// Of those that are not read, only the first for whom there is room is called, so that nobody who has waited
/// less goes before it. When one has been read, it is the turn of the next.
/// There may be room for one and none for others who have waited longer.
void stream_host::call_held() {
  if (!at_->reads_others()) return;
  const auto first =
      std::ranges::find_if(held_, [&](const connection_ptr& c) { return at_->reads(c->id(), loop_->now()); });
  if (first == held_.end()) return;
  (*first)->is_called = true;
  (*first)->look_soon();
}

void stream_host::drop(const connection_ptr& c) {
  connections_.erase(c->id());
  std::erase(speakers_, c);
  if (std::exchange(c->is_held, false)) held_.erase(c->place_among_held);
}

bool stream_host::take(const connection_ptr& c, std::span<std::byte> place, std::size_t count) {
  heard_ = true;
  if (server_ && !std::exchange(c->is_heard, true) && !c->bytes().lets_peer_serve())
    server_->bar_from_serving(c->id());
  const std::size_t placed = std::min(count, place.size());
  const instant now = loop_->now();
  if (placed > 0) at_->filled(c->id(), placed, now);
  if (has(c) && count > placed) at_->received(c->id(), loop_->scratch().first(count - placed), now);
  return has(c);
}

void stream_host::send_all(const connection_ptr& c) {
  // A peer that reads nothing any more does not hold the end up: the time of the farewell begins.
  while (has(c) && c->is_blocked() && at_->has_ended(c->id())) {
    auto last = at_->next(c->id(), loop_->now());
    if (!last) break;
    c->out.push(std::move(*last));
  }
  for (int round = 0; has(c) && !c->is_blocked(); ++round) {
    while (c->out.has_room()) {
      auto frame = at_->next(c->id(), loop_->now());
      if (!frame) break;
      c->out.push(std::move(*frame));
    }
    if (c->out.empty() && !c->bytes().holds_output()) break;
    if (!c->out.empty() && !std::exchange(c->speaks, true)) speakers_.push_back(c);
    const bool is_all = c->send();
    loop_->heat(c); // since an answer may come
    if (!is_all) break;
    if (round == most_batches_a_turn) c->wait_writable();
  }
  if (!has(c) || !at_->is_through(c->id())) return;
  let_go(c);
  at_->closed(c->id(), "closed here", loop_->now());
}

/// A connection that has said nothing has something to say only when bytes came on it or time has passed, so
/// those of strangers who never say hello cost nothing here.
void stream_host::pump() {
  const auto self = shared_from_this();
  if (!at_) return;
  if (client_ && client_->wants_bulk()) dial(instant{0});
  for (std::size_t i = 0; i < speakers_.size();) {
    const connection_ptr c = speakers_[i];
    flush(c);
    if (!at_) return;
    if (i < speakers_.size() && speakers_[i] == c) ++i;
  }
  if (!held_.empty()) call_held();
  loop_->watch(*this);
}

void stream_host::lose(const connection_ptr& c, const moved& last) {
  if (server_ && last.refused) { // it still hears why
    server_->refuse(c->id(), *last.refused);
    return flush(c);
  }
  drop(c);
  c->host = nullptr;
  c->close();
  const bool is_early = client_ && client_->own().now_is() == session::state::greeting;
  if (is_early && !heard_ && tries_again(last)) return;
  moved with_words = last;
  if (last.what == moved::outcome::ended && !c->words_of_failure.empty())
    with_words.words = c->words_of_failure;
  at_->closed(c->id(), is_early ? early_end_words(with_words) : with_words.words, loop_->now());
}

std::string stream_host::early_end_words(const moved& last) const {
  return fmt::format(
      "{} closed the connection before it took us in ({}): expected a server of Mailgrad there",
      server_name(), last.words);
}

void stream_host::forget() {
  for (const auto& l : std::exchange(listeners_, {})) l->stop();
  if (const auto dialer = std::exchange(dialer_, nullptr)) dialer->stop();
  const instant farewell = times().farewell();
  for (const auto& [id, c] : connections_) {
    c->send();
    c->out.clear(); // what bodies lie in may be gone
    c->leave(farewell);
  }
  connections_.clear();
  speakers_.clear();
  held_.clear();
  at_ = nullptr;
  client_ = nullptr;
  server_ = nullptr;
  clock_.cancel();
  loop_->unwatch(*this);
}

void stream_host::schedule() {
  if (!at_ || (client_ && connections_.empty())) return; // a client's time begins with its first connection
  const instant when = at_->deadline();
  if (when >= tick_at_) return; // it looks again when that has come
  tick_at_ = when;
  clock_.expires_at(asio::steady_timer::time_point(of_timer(when)));
  clock_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (!cancelled && self->at_) self->tick();
  });
}

void stream_host::tick() {
  tick_at_ = instant::max();
  if (client_ && connections_.empty()) return; // it is being made once more
  const instant now = loop_->now();
  if (client_ && !heard_ && client_->own().is_overdue(now)) {
    const connection_ptr c = connections_.begin()->second;
    let_go(c);
    at_->closed(c->id(),
                fmt::format("no answer from {} within {} s: expected a server of Mailgrad there",
                            server_name(), in_seconds(client_->own().longest_greeting())),
                now);
  } else {
    at_->tick(now);
  }
  const auto all = connections_;
  for (const auto& [id, c] : all)
    if (has(c)) flush(c);
  pump();
}

} // namespace mailgrad::net
