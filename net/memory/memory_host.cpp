#include <mailgrad/net/memory/peer_memory.hpp>

#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/memory/memory_network.hpp>
#include <mailgrad/net/memory/shared_region.hpp>

#include <sys/socket.h>
#include <sys/un.h>

namespace mailgrad::net {

namespace {

constexpr std::string_view family_of_names = "mailgrad/";
static_assert(1 + family_of_names.size() + most_memory_name <= sizeof(sockaddr_un::sun_path));

struct abstract_address {
  explicit abstract_address(const std::string& name) {
    at.sun_family = AF_UNIX;
    char* const behind_zero = at.sun_path + 1;
    std::ranges::copy(name, std::ranges::copy(family_of_names, behind_zero).out);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + family_of_names.size() + name.size());
  }
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&at); }

  sockaddr_un at{};
  socklen_t size = 0;
};

descriptor new_socket() { return descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

} // namespace

descriptor listening_at(const std::string& name) {
  descriptor made = new_socket();
  const abstract_address where(name);
  if (!made || bind(made.number(), where.get(), where.size) != 0 || listen(made.number(), SOMAXCONN) != 0)
    fail_in_system(fmt::format("cannot listen at {}", memory_address(name)));
  return made;
}

dialled connected_to(const std::string& name) {
  descriptor made = new_socket();
  const abstract_address where(name);
  if (!made || connect(made.number(), where.get(), where.size) != 0) return {{}, errno};
  return {std::move(made), 0};
}

borrowed peer_memory::borrow(const loan& l) try {
  if (!far_) {
    if (!heap_ && look_) look_();
    if (!heap_) throw protocol_error("lent: expected a descriptor of the memory before, found none");
    far_.emplace(std::move(heap_), pages_);
  }
  return far_->view(l);
} catch (const std::system_error& e) {
  throw protocol_error(e.what());
}

namespace {

/// A read ends at a descriptor, and there is one at most.
constexpr int most_reads_of_calls = 3;
constexpr std::chrono::milliseconds longest_wait{500};
constexpr int most_free_names = 4096;

/// Bytes by memory that both sides see. The socket beside it wakes whoever sleeps, and closes with the peer's
/// process.
/// Guarantees  a peer that writes nonsense into the memory ends its own connection alone.
class memory_pipe final : public byte_pipe {
public:
  enum class side : std::uint8_t { server, client };

  /// The socket does not block, and outlives the pipe.
  memory_pipe(int socket, shared_region region, side s, std::shared_ptr<shared_heap> lends = {},
              std::shared_ptr<far_pages> pages = std::make_shared<far_pages>())
      : socket_(socket), memory_(std::make_shared<peer_memory>(std::move(lends), std::move(pages))),
        region_(std::move(region)), out_(s == side::server ? region_.of_server() : region_.of_client()),
        in_(s == side::server ? region_.of_client() : region_.of_server()) {
    region_.close_descriptor();
    memory_->ask_by([this] { hear_calls(); });
  }
  ~memory_pipe() override { memory_->ask_by(nullptr); }

  /// What both sides lend each other, which may outlive the pipe.
  const std::shared_ptr<peer_memory>& memory() const noexcept { return memory_; }

  moved read(std::span<const iovec> to) override {
    return while_believed([&]() -> moved {
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
    });
  }
  moved write(std::span<const iovec> from) override {
    return while_believed([&]() -> moved {
      if (hung_up_) return {.what = moved::outcome::ended, .words = "closed by the peer"};
      const std::size_t count = out_.write(from);
      if (count == 0) return {.what = moved::outcome::later};
      if (out_.is_called()) call_peer();
      return {.what = moved::outcome::some, .count = count};
    });
  }
  bool call_for_input() override {
    return while_believed([&] {
      const bool is_there = in_.call();
      calls_ = !is_there;
      return is_there;
    });
  }
  bool tells_room_as_input() const noexcept override { return true; }
  bool has_room() override {
    return while_believed([&] { return hung_up_ || out_.has_room(); });
  }
  bool call_for_room() override {
    return while_believed([&] { return hung_up_ || out_.call(); });
  }

private:
  /// What `work` gives. If the peer is believed no more: a failure, or true, so that whoever would wait looks
  /// and then hears of it.
  template <class Work>
  std::invoke_result_t<Work> while_believed(Work work) {
    try {
      if (broken_.empty()) return work();
    } catch (const protocol_error& e) {
      broken_ = e.what();
    }
    if constexpr (std::is_same_v<std::invoke_result_t<Work>, bool>)
      return true;
    else
      return {.what = moved::outcome::failed, .words = broken_};
  }
  /// If the socket takes no more bytes, the peer has enough that will wake it.
  void call_peer() const noexcept {
    const char call = 1;
    (void)send(socket_, &call, sizeof call, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  void hear_calls() noexcept {
    descriptor heap;
    ssize_t count = 1;
    for (int i = 0; count > 0 && i < most_reads_of_calls; ++i) {
      count = take_calls(socket_, heap);
      if (heap) memory_->take(std::move(heap));
    }
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
      hung_up_ = true;
  }

  int socket_;
  std::shared_ptr<peer_memory> memory_;
  shared_region region_;
  ring_writer out_;
  ring_reader in_;
  bool calls_ = false;   ///< for input
  bool hung_up_ = false; ///< the peer writes no more
  std::string broken_;   ///< why the peer is believed no more; empty while it is
};

/// One try after the other to connect to a server of this machine, and again after a pause as long as nobody
/// listens there; then it waits for the memory that the server offers.
/// Threads that of the network.
class memory_dialer final : public connection_maker, public std::enable_shared_from_this<memory_dialer> {
public:
  struct plan {
    std::string name;    ///< of the server
    instant patience{0}; ///< tries again for so long
    instant answer{0};   ///< waits so long for the offer
  };
  /// What became of it: a connection that stands, or words that say why there is none.
  struct outcome {
    stream_socket socket;
    offered memory{};
    std::string words{};
    bool nobody_listens = false;
  };
  /// Called once.
  using done = std::function<void(outcome)>;

  memory_dialer(asio::io_context& io, plan p, done told)
      : plan_(std::move(p)), told_(std::move(told)), socket_(io), clock_(io),
        until_(asio::steady_timer::clock_type::now() + of_timer(plan_.patience)) {}

  void begin() override { try_now(); }
  void stop() override {
    told_ = nullptr;
    close();
  }

private:
  void try_now() {
    dialled found = connected_to(plan_.name);
    if (found.failed != 0) return pause(found.failed);
    const auto user = user_of_peer(found.socket.number());
    if (user != geteuid())
      return give_up(fmt::format(
          "cannot connect to {}: expected a server of user {}, found one of {}: join as "
          "that user, or use HOST:PORT with keys",
          memory_address(plan_.name), geteuid(), user ? fmt::format("user {}", *user) : "no user"));
    socket_.assign(asio::generic::stream_protocol(asio::local::stream_protocol()), found.socket.release());
    clock_.expires_after(of_timer(plan_.answer));
    clock_.async_wait([self = shared_from_this()](error_code cancelled) {
      if (cancelled || !self->told_) return;
      self->give_up(fmt::format("no answer from {} within {} s: expected a server of Mailgrad there",
                                memory_address(self->plan_.name), in_seconds(self->plan_.answer)));
    });
    wait_for_offer();
  }

  void wait_for_offer() {
    socket_.async_wait(stream_socket::wait_read, [self = shared_from_this()](error_code failed) {
      if (!failed && self->told_) self->look_at_offer();
    });
  }

  void look_at_offer() try {
    auto found = take_offer(socket_.native_handle());
    if (!found) return wait_for_offer();
    clock_.cancel();
    const done told = std::exchange(told_, nullptr);
    told({std::move(socket_), std::move(*found)});
  } catch (const protocol_error& e) {
    give_up(fmt::format("{} did not take us in ({}): expected a server of Mailgrad there",
                        memory_address(plan_.name), e.what()));
  } catch (const std::system_error& e) {
    give_up(fmt::format("cannot connect to {}: {}", memory_address(plan_.name), e.what()));
  }

  void pause(int failed) {
    const auto moment = asio::steady_timer::clock_type::now();
    if (moment >= until_) return give_up(words_of(failed), failed == ECONNREFUSED);
    clock_.expires_at(std::min(moment + pause_, until_));
    pause_ = std::min(2 * pause_, longest_wait);
    clock_.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled && self->told_) self->try_now();
    });
  }

  void give_up(const std::string& words, bool nobody_listens = false) {
    const done told = std::exchange(told_, nullptr);
    close();
    told({stream_socket(socket_.get_executor()), {}, words, nobody_listens});
  }
  void close() {
    error_code ignored;
    clock_.cancel();
    socket_.close(ignored);
  }

  std::string words_of(int failed) const {
    const std::string what =
        failed == ECONNREFUSED ? "nobody listens there" : std::generic_category().message(failed);
    return fmt::format("cannot connect to {}: {}{}: start the server on this machine, or check the name",
                       memory_address(plan_.name), what, words_of_patience(plan_.patience));
  }

  plan plan_;
  done told_;
  stream_socket socket_;
  asio::steady_timer clock_;
  asio::steady_timer::time_point until_;
  std::chrono::milliseconds pause_{25};
};

/// Listens under a name that nobody has, which is made of the number of this process.
descriptor listening_anywhere(std::string& name) {
  for (int n = 0;; ++n) try {
      name = fmt::format("{}-{}", getpid(), n);
      return listening_at(name);
    } catch (const std::system_error& e) {
      if (e.code().value() != EADDRINUSE || n == most_free_names) throw;
    }
}

/// One endpoint on a network of shared memory: who makes its connections.
/// Threads that of the network.
class memory_host final : public stream_host {
public:
  using stream_host::stream_host;

  std::string listen(const std::string& address) override {
    std::string name = parse_memory_listen_address(address);
    shared_region::make(); // a system that has none says so now, and not to each peer
    descriptor socket = name.empty() ? listening_anywhere(name) : listening_at(name);
    take_at(std::move(socket), [host = self()](descriptor taken) {
      stream_socket made(host->loop().io());
      made.assign(asio::generic::stream_protocol(asio::local::stream_protocol()), taken.release());
      if (!host->is_forgotten()) host->take_in(std::move(made));
    });
    return memory_address(name);
  }
  void aim_at(const std::string& address) override { name_ = parse_memory_server_address(address); }

private:
  std::shared_ptr<connection_maker> dialer_for(connection_id id, plane p, instant patience) override {
    return std::make_shared<memory_dialer>(loop().io(), memory_dialer::plan{name_, patience, times().hello()},
                                           [host = self(), id, p](memory_dialer::outcome found) {
                                             if (found.nobody_listens) return host->find_nobody(found.words);
                                             if (!found.words.empty()) return host->fail(id, found.words);
                                             host->begin_talk(id, p, std::move(found));
                                           });
  }
  std::string server_name() const override { return memory_address(name_); }

  /// Bodies go by the bulk connection, so there alone something is lent.
  void begin_talk(connection_id id, plane p, memory_dialer::outcome found) {
    const int number = found.socket.native_handle();
    const std::shared_ptr<shared_heap> lends = p == plane::bulk ? client()->heap() : nullptr;
    if (lends) send_heap(number, lends->memory());
    auto pipe = std::make_unique<memory_pipe>(number, std::move(found.memory.region),
                                              memory_pipe::side::client, lends);
    const auto memory = pipe->memory();
    if (p == plane::bulk && found.memory.heap) memory->take(std::move(found.memory.heap));
    open(id, process_at(number), std::move(found.socket), std::move(pipe), memory);
  }

  /// A peer without memory is let go without a word, since there is none for words either; it says that the
  /// connection was closed.
  void take_in(stream_socket socket) try {
    const int number = socket.native_handle();
    const auto user = user_of_peer(number);
    if (user != geteuid())
      return turn_away(std::move(socket), user ? fmt::format("user {}", *user) : "no user");
    shared_region region = shared_region::make();
    const std::shared_ptr<shared_heap> lends = server()->heap();
    if (!send_offer(number, region, lends ? lends->memory() : -1)) return;
    auto pipe =
        std::make_unique<memory_pipe>(number, std::move(region), memory_pipe::side::server, lends, pages_);
    const auto memory = pipe->memory();
    open(loop().next_id(), process_at(number), std::move(socket), std::move(pipe), memory);
  } catch (const std::system_error&) {
  }

  /// Gets words by the socket, and no memory.
  void turn_away(stream_socket socket, std::string found) {
    const int number = socket.native_handle();
    auto pipe = std::make_unique<plain_pipe>(number);
    const auto c = open(loop().next_id(), process_at(number), std::move(socket), std::move(pipe));
    if (!server()) return;
    server()->refuse(c->id(), {refusal_code::user, fmt::format("user {}", geteuid()), std::move(found)});
    flush(c);
  }
  std::shared_ptr<memory_host> self() { return std::static_pointer_cast<memory_host>(shared_from_this()); }

  const std::shared_ptr<far_pages> pages_ = std::make_shared<far_pages>(); ///< of all peers of a server
  std::string name_;                                                       ///< of the client's server
};

} // namespace

memory_network::memory_network(const memory_options& options)
    : stream_network("memory", options.spin, options.patience,
                     [](stream_loop& loop, server_end* server, client_end* client) {
                       return std::make_shared<memory_host>(loop, server, client);
                     }) {}

bool memory_network::is_supported() noexcept try {
  shared_region::make(shared_region::least_ring_bytes);
  return true;
} catch (const std::system_error&) {
  return false;
}

} // namespace mailgrad::net
