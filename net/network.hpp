#pragma once

#include <mailgrad/net/server_end.hpp>

#include <random>

namespace mailgrad::net {

/// The client's side of a network: one session, whose first connection is control and whose second is bulk.
/// Threads that of the network.
class client_end final : public endpoint {
public:
  client_end(hello says, session_events& events, instant now) : session_(std::move(says), events, now) {}

  session& own() noexcept { return session_; }
  const session& own() const noexcept { return session_; }
  /// Whether the network shall make the bulk connection now. True until begin_bulk().
  bool wants_bulk() const noexcept { return !bulk_ && session_.wants_bulk(); }
  /// The server listened a while ago: if nobody does now it is gone, and the network shall not wait for it.
  void try_once() noexcept { tries_once_ = true; }
  bool tries_once() const noexcept { return tries_once_; }
  /// Nobody listens at the server's address, in the words of the network.
  void find_nobody(const std::string& words, instant now) {
    session_.end({end_reason::absent, session_.peer_name() + ": " + words}, now);
  }
  /// Which connection will be the bulk one, told before it is opened. The others are for control.
  void begin_bulk(connection_id c) noexcept { bulk_ = c; }
  bool is_bulk(connection_id c) const noexcept { return c == bulk_; }

  void opened(connection_id c, std::string_view, instant now) override { session_.attach(plane_of(c), now); }
  void shares(connection_id c, std::shared_ptr<common_memory> memory) override {
    if (plane_of(c) == plane::bulk) session_.share(std::move(memory));
  }
  void received(connection_id c, byte_view data, instant now) override {
    session_.receive(plane_of(c), data, now);
  }
  std::span<std::byte> place(connection_id c) override { return session_.place(plane_of(c)); }
  void filled(connection_id c, std::size_t count, instant now) override {
    session_.filled(plane_of(c), count, now);
  }
  void closed(connection_id c, std::string_view words, instant now) override {
    session_.lose(plane_of(c), words, now);
  }
  std::optional<outgoing> next(connection_id c, instant now) override {
    return session_.next(plane_of(c), now);
  }
  bool has_ended(connection_id) const override { return session_.now_is() == session::state::ended; }
  bool is_through(connection_id) const override { return session_.is_through(); }
  void tick(instant now) override { session_.tick(now); }
  instant deadline() const override { return session_.deadline(); }

private:
  plane plane_of(connection_id c) const noexcept { return c == bulk_ ? plane::bulk : plane::control; }

  session session_;
  std::optional<connection_id> bulk_;
  bool tries_once_ = false;
};

/// What carries the bytes between endpoints. Every way to do so is one class that derives from this.
///
/// A network has one thread, and everything of its endpoints is done there. An endpoint must outlive its use:
/// it is told to the network by listen() or connect(), and taken back by forget().
/// Threads any for post(); what else there is, a derived class says.
class network {
public:
  virtual ~network() = default;

  /// Lets peers connect to the server. Returns the address under which they find it, with the port that was
  /// free if the port is 0.
  virtual std::string listen(server_end& server, const std::string& address) = 0;
  /// Makes the connections of a client. That it fails is told to the client's session.
  virtual void connect(client_end& client, const std::string& address) = 0;
  /// Closes all connections of an endpoint. Nothing of it is called after this.
  virtual void forget(endpoint& e) = 0;
  /// The moment on the clock of this network, which all moments of its endpoints are of.
  virtual instant now() const noexcept = 0;
  /// Does something with a session of the endpoint on the network's thread, and then sends what it has to
  /// say.
  virtual void post(endpoint& e, std::function<void(instant now)> work) = 0;
  /// A number that nobody can guess, for a session. Threads any.
  virtual std::uint64_t draw_key() {
    thread_local std::random_device source;
    return std::uint64_t{source()} << 32 | source();
  }
};

} // namespace mailgrad::net
