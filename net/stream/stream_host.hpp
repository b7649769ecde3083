#pragma once

#include <mailgrad/net/descriptor.hpp>
#include <mailgrad/net/network.hpp>
#include <mailgrad/net/stream/byte_pipe.hpp>
#include <mailgrad/net/stream/stream_loop.hpp>

#include <list>

namespace mailgrad::net {

/// The frames of a connection that are on their way to the socket, gathered so that one call sends several of
/// them without a copy.
/// Threads that of the network.
class outbox {
public:
  /// A batch of pieces of a body is read twice, once for its checksum and once by the socket, so it is small
  /// enough to stay in a cache meanwhile.
  static constexpr std::size_t most_bytes = 512 << 10;
  static constexpr std::size_t most_frames = 64;

  bool empty() const noexcept { return frames_.empty(); }
  bool has_room() const noexcept { return frames_.size() < most_frames && bytes_ < most_bytes; }
  void push(outgoing frame) {
    bytes_ += size_of(frame);
    frames_.push_back(std::move(frame));
  }
  /// Where the unsent bytes lie, in order: the first of `parts`, two for a frame.
  std::span<const iovec> gather(std::span<iovec> parts) const;
  /// So many of these bytes have gone.
  void sent(std::size_t count);
  void clear() noexcept {
    frames_.clear();
    begun_ = bytes_ = 0;
  }

private:
  static std::size_t size_of(const outgoing& frame) { return frame.header.size() + frame.content().size(); }

  std::deque<outgoing> frames_;
  std::size_t begun_ = 0; ///< bytes of the first frame that have gone
  std::size_t bytes_ = 0; ///< of all frames
};

/// One connection: its socket, what it shall still send, and the host whose it is. Without a host it leaves:
/// it sends what is left, reads until the peer has closed too, and then closes.
/// Threads that of the network.
class stream_connection final : public std::enable_shared_from_this<stream_connection> {
public:
  stream_connection(connection_id id, stream_loop& loop, stream_socket socket,
                    std::unique_ptr<byte_pipe> bytes)
      : id_(id), loop_(&loop), socket_(std::move(socket)), end_(loop.io()), bytes_(std::move(bytes)) {}

  connection_id id() const noexcept { return id_; }
  bool is_open() const noexcept { return socket_.is_open(); }
  int native() { return socket_.native_handle(); }
  byte_pipe& bytes() noexcept { return *bytes_; }

  /// Reads a turn's worth. Whether anything came.
  bool turn();
  /// Sends what is gathered. False if some of it is left, since the socket takes no more now.
  bool send();
  /// Has the host read as soon as there is something, unless it is told so anyway.
  void wait_readable();
  /// Has the host go on sending as soon as the socket takes something.
  void wait_writable();
  /// Has the host look for input as soon as it can, without a word of the socket.
  void look_soon();
  /// Whether the socket takes no more until the system says otherwise.
  bool is_blocked() const noexcept { return is_blocked_; }

  /// Belongs to no host any more.
  void leave(instant farewell);
  void close();

  stream_host* host = nullptr;
  outbox out;
  std::string words_of_failure; ///< what the system said when it took no more to send
  bool speaks = false;          ///< has sent a frame
  bool is_heard = false;        ///< a byte of a frame has come
  bool is_hot = false;
  bool is_held = false;   ///< the host does not read it until it is called
  bool is_called = false; ///< its turn has come
  std::list<std::shared_ptr<stream_connection>>::iterator place_among_held{};
  instant hot_until{0};

private:
  void leave_nothing();
  void look() {
    if (is_open() && !turn()) wait_readable();
  }

  connection_id id_;
  stream_loop* loop_;
  stream_socket socket_;
  asio::steady_timer end_;
  std::unique_ptr<byte_pipe> bytes_;
  bool is_waiting_ = false; ///< for the socket to have something to read
  bool looks_soon_ = false; ///< is told to look, without a word of the socket
  bool is_blocked_ = false;
  bool is_shut_ = false; ///< sends no more
};

/// ", tried for 10 s", behind why a client with so much patience has no connection.
inline std::string words_of_patience(instant patience) {
  return patience.count() > 0 ? fmt::format(", tried for {} s", in_seconds(patience)) : "";
}

/// What makes connections until it is told to stop.
class connection_maker {
public:
  virtual ~connection_maker() = default;
  virtual void begin() = 0;
  /// Nobody is told anything more.
  virtual void stop() = 0;
};

/// Who has connected. None if nobody has, or there is no descriptor left; then `errno` says so.
descriptor accepted_at(int listener) noexcept;

/// One endpoint on a network of streams, and its connections. How a connection is made, a derived class
/// knows.
///
/// The endpoint may be forgotten within any call to it, so nothing of it is touched after one without a look.
/// Threads that of the network.
class stream_host : public std::enable_shared_from_this<stream_host> {
public:
  /// Of a server or of a client; the other one is null.
  stream_host(stream_loop& loop, server_end* server, client_end* client)
      : loop_(&loop), at_(server ? static_cast<endpoint*>(server) : client), client_(client), server_(server),
        clock_(loop.io()) {}
  virtual ~stream_host() = default;
  stream_host(const stream_host&) = delete;
  stream_host& operator=(const stream_host&) = delete;

  /// Lets peers connect, and returns the address at which they do.
  /// Errors  std::invalid_argument for an address that is none; std::system_error if it is taken.
  virtual std::string listen(const std::string& address) = 0;
  /// Where the server of a client is.
  /// Errors  std::invalid_argument for an address that is none.
  virtual void aim_at(const std::string& address) = 0;
  /// Connects to it, and tries for so long.
  virtual void connect(instant patience) { dial(patience); }

  void work(const std::function<void(instant)>& what) {
    what(loop_->now());
    pump();
  }
  /// Closes every connection. The endpoint is not called again.
  void forget();

  /// Reads a turn's worth of what has come. Whether anything came.
  bool read(const std::shared_ptr<stream_connection>& c);
  /// Sends what the endpoint has to say.
  void flush(const std::shared_ptr<stream_connection>& c);
  /// Sets the clock for the next tick.
  void schedule();

protected:
  using connection_ptr = std::shared_ptr<stream_connection>;

  stream_loop& loop() const noexcept { return *loop_; }
  bool is_forgotten() const noexcept { return at_ == nullptr; }
  /// Of the two one, and none after forget().
  client_end* client() const noexcept { return client_; }
  server_end* server() const noexcept { return server_; }
  timing times() const { return server_ ? server_->times() : client_->own().terms().times; }

  /// Begins to take connections at this socket that listens.
  void take_at(descriptor listening, std::function<void(descriptor socket)> told);
  /// Makes the next connection of a client, and tries for so long where nobody listens.
  void dial(instant patience);
  /// What dial() has begun is done, or somebody has come from there: the connection stands.
  connection_ptr open(connection_id id, const std::string& from, stream_socket socket,
                      std::unique_ptr<byte_pipe> pipe, std::shared_ptr<common_memory> memory = nullptr);
  /// What dial() has begun has failed.
  void fail(connection_id id, const std::string& words) {
    client_->closed(id, words, loop_->now());
    pump();
  }
  /// The same, because nobody listens where the server should be.
  void find_nobody(const std::string& words) {
    client_->find_nobody(words, loop_->now());
    pump();
  }
  const std::map<connection_id, connection_ptr>& connections() const noexcept { return connections_; }

  /// Why a server that has not taken the client in is gone.
  virtual std::string early_end_words(const moved& last) const;
  /// A connection of a client has ended so before any byte came on it. Whether it is made once more, by
  /// dial().
  virtual bool tries_again(const moved& /*last*/) { return false; }

private:
  /// Who makes a connection, which ends by open(), fail() or find_nobody().
  virtual std::shared_ptr<connection_maker> dialer_for(connection_id id, plane p, instant patience) = 0;
  /// Where the client's server is, as the user said it.
  virtual std::string server_name() const = 0;

  template <class Work>
  auto guarded(const connection_ptr& c, Work work) -> decltype(work());
  bool read_some(const connection_ptr& c);
  void send_all(const connection_ptr& c);
  /// Who finds no room keeps its place, and who was read goes to the end when it is held again.
  void hold(const connection_ptr& c) {
    if (std::exchange(c->is_held, true)) return;
    c->is_called = false;
    c->place_among_held = held_.insert(held_.end(), c);
  }
  void call_held();
  void drop(const connection_ptr& c);
  bool take(const connection_ptr& c, std::span<std::byte> place, std::size_t count);
  void pump();
  void lose(const connection_ptr& c, const moved& last);
  void let_go(const connection_ptr& c) {
    drop(c);
    c->leave(times().farewell());
  }
  bool has(const connection_ptr& c) const { return c->host == this; }
  void tick();

  stream_loop* loop_;
  endpoint* at_;
  client_end* client_;
  server_end* server_;
  std::vector<std::shared_ptr<connection_maker>> listeners_;
  std::shared_ptr<connection_maker> dialer_; ///< or the last one
  std::map<connection_id, connection_ptr> connections_;
  std::vector<connection_ptr> speakers_; ///< those that have said something
  std::list<connection_ptr> held_;       ///< those that are not read now, who waits longest first
  bool heard_ = false;                   ///< of a client: a byte has come
  asio::steady_timer clock_;
  instant tick_at_ = instant::max();
};

} // namespace mailgrad::net
