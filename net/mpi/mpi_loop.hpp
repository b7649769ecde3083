#pragma once

#include <mailgrad/net/all_reduce.hpp>
#include <mailgrad/net/endpoint.hpp>
#include <mailgrad/net/mpi/mpi_calls.hpp>
#include <mailgrad/net/network.hpp>
#include <mailgrad/net/server_end.hpp>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad::net {

/// One connection: two tags between two ranks, one for each direction. A small frame is one message; of a
/// large one header and body are two, so that the body is sent from where it lies and received where it
/// belongs. A message without bytes is the last one.
///
/// Errors  those of mpi_calls.
/// Threads that of the network.
class mpi_connection {
public:
  struct route {
    int peer = 0; ///< its rank
    int out = 0;  ///< tags
    int in = 0;
  };

  mpi_connection(connection_id id, mpi_calls& mpi, route r) : id_(id), mpi_(&mpi), route_(r) {}

  connection_id id() const noexcept { return id_; }
  /// The rank at the other end.
  int peer() const noexcept { return route_.peer; }

  /// Hands a message on, if one is here: to `at`, or to nobody. Whether there was one.
  /// Errors  protocol_error for one that is larger than any frame; nothing is read after that.
  bool read(endpoint* at, instant now);
  /// Whether the peer sends no more.
  bool has_ended() const noexcept { return ended_; }

  /// Whether another frame may be sent before those that are under way have gone.
  bool has_room() const noexcept { return sent_.size() < most_frames && under_way_ < most_bytes; }
  void send(outgoing frame);
  /// Lets go of what has gone. Whether anything has.
  bool let_go();
  /// Says that no more comes. Once.
  void end();
  /// Whether all of it has gone, the end too.
  bool is_sent() const noexcept { return said_end_ && sent_.empty(); }

private:
  static constexpr std::size_t most_frames = 32;
  static constexpr std::size_t most_bytes = 1 << 20; ///< four pieces of a body
  /// Copying so much costs less than a message of its own.
  static constexpr std::size_t most_joined_bytes = 4096;

  struct part {
    mpi_calls::request request = 0;
    bool gone = true;
  };
  struct under_way {
    outgoing frame;
    bytes joined; ///< header and payload of a small one
    std::array<part, 2> parts;
  };

  part send_part(byte_view data);
  bool is_gone(under_way& frame);

  connection_id id_;
  mpi_calls* mpi_;
  route route_;
  std::deque<under_way> sent_; ///< a deque, since MPI reads from where they lie
  std::size_t under_way_ = 0;  ///< bytes
  bytes scratch_;
  bool ended_ = false;
  bool said_end_ = false;
};

/// One endpoint on a network of MPI, and its connections.
///
/// The endpoint may be forgotten within any call to it, so nothing of it is touched after one without a look.
/// Threads that of the network.
class mpi_host {
public:
  using connection_ptr = std::shared_ptr<mpi_connection>;
  /// What a host asks of its network.
  struct hooks {
    std::function<void(mpi_host&, instant now)> dial; ///< makes the next connection of a client
    std::function<void(connection_ptr)> leave;        ///< takes a connection until its last bytes have gone
  };

  mpi_host(server_end& server, hooks h) : hooks_(std::move(h)), at_(&server) {}
  mpi_host(client_end& client, hooks h) : hooks_(std::move(h)), at_(&client), client_(&client) {}
  mpi_host(const mpi_host&) = delete;
  mpi_host& operator=(const mpi_host&) = delete;

  /// Null after forget(), and for a server.
  client_end* client() const noexcept { return client_; }
  bool is_forgotten() const noexcept { return at_ == nullptr; }

  void open(connection_ptr c, instant now);
  /// A connection of a client could not be made.
  void fail(connection_id id, std::string_view words, instant now);
  /// Nobody listens where the client's server should be.
  void find_nobody(std::string_view words, instant now);
  void work(const std::function<void(instant)>& what, instant now);
  /// Reads, sends, and looks at the clock. Whether anything came or went.
  bool turn(instant now);
  /// All connections are lost, for these words.
  void lose_all(std::string_view words, instant now);
  /// Closes every connection. The endpoint is not called again.
  void forget();

private:
  bool read(const connection_ptr& c, instant now);
  bool flush(const connection_ptr& c, instant now);
  void lose(const connection_ptr& c, std::string_view words, instant now);
  bool has(const connection_ptr& c) const { return at_ && connections_.contains(c->id()); }
  std::vector<connection_ptr> all();

  hooks hooks_;
  endpoint* at_;
  client_end* client_ = nullptr;
  std::map<connection_id, connection_ptr> connections_;
  std::list<connection_id> held_; ///< those that are not read now, who waits longest first
  std::map<connection_id, std::list<connection_id>::iterator> among_held_; ///< where each of them is
};

/// The rounds in which every rank but rank 0 adds up its numbers with those of the others; rank r is worker
/// r - 1.
///
/// No rank can leave a sum of MPI, since it ends on no rank before it has begun on all. So a rank that has
/// left goes on taking part with zeros. A second sum says who gave numbers, and the round in which nobody
/// did is the last one. Ranks may thus leave at any time and in any order, and none waits for ever.
///
///     resting --add()--> giving --sum--> resting --leave()--> passing --nobody gave--> over
///                                                              ^   \--somebody gave--+
///                                                              +---------------------+
///
/// Errors  those of mpi_calls; std::runtime_error for numbers that come while a round is under way.
/// Threads that of the network.
class mpi_sums {
public:
  /// What a rank gives to a round.
  struct part {
    std::span<float> values;
    std::shared_ptr<const void> keeps{};
    all_reduce::on_sum done{}; ///< null: it only passes
  };

  mpi_sums(mpi_calls& mpi, mpi_calls::place here, std::size_t floats);
  mpi_sums(const mpi_sums&) = delete;
  mpi_sums& operator=(const mpi_sums&) = delete;

  void add(part p);
  /// No further numbers come from this rank.
  void leave();
  /// Whether a round has ended.
  bool turn();
  bool is_under_way() const noexcept { return giving_.has_value(); }
  /// Whether no rank takes part any more.
  bool is_over() const noexcept { return over_; }

private:
  struct sum {
    mpi_calls::request request = 0;
    bool done = true;
  };

  void begin(part p);
  void pass();
  void end_round();

  mpi_calls* mpi_;
  std::size_t me_;                ///< among the workers
  std::vector<float> attendance_; ///< by worker: 1 if it gives numbers
  std::vector<float> zeros_;      ///< of a rank that has left
  std::size_t floats_;
  std::optional<part> giving_; ///< to the round under way
  std::array<sum, 2> sums_;    ///< of the attendance and of the numbers
  bool left_ = false;
  bool over_ = false;
};

/// The turns of the thread that owns MPI: work from other threads, connections that are asked for and
/// answered, hosts, and pauses.
///
/// MPI has nothing to sleep on, so the thread looks again and again. When nothing came for longer than the
/// spin it pauses between two looks, for a quarter of the time that nothing came, but from 20 us to 1 ms: a
/// message waits no longer than that, and an idle thread takes a few thousandths of a core. While a sum is
/// under way the pause stays at 20 us, since the other ranks wait for what this one passes on.
/// Threads that which calls run(), except for post() and stop().
class mpi_loop {
public:
  /// `on_wait`: see mpi_options.
  mpi_loop(mpi_calls& mpi, std::chrono::microseconds spin,
           std::function<void(const std::string& words)> on_wait = {})
      : mpi_(&mpi), spin_(spin), on_wait_(std::move(on_wait)) {}
  mpi_loop(const mpi_loop&) = delete;
  mpi_loop& operator=(const mpi_loop&) = delete;

  /// Takes turns until stop(), and then until the last bytes have gone and every rank has stopped. The rank
  /// of a server waits for no rank that has not even heard its goodbye 2 s later, and leaves MPI as it is
  /// then. `with_others` false: it does not wait for the other ranks, and leaves MPI as it is.
  void run();
  void stop(bool with_others);
  /// Has something done on the thread, in the order of the calls. Any thread.
  void post(std::function<void()> work);

  void serve(server_end& server);
  void connect(client_end& client, int rank, instant patience);
  void forget(endpoint& e);
  mpi_host* find(endpoint& e) const;

  /// This rank takes part in sums of so many floats. Nothing of them is done once MPI has failed.
  ///
  /// Errors  std::invalid_argument if it does already.
  void join_sums(mpi_calls::place here, std::size_t floats);
  void add(mpi_sums::part p);
  void leave_sums();

  instant now() const noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }

private:
  /// A connection that a client has asked for.
  struct asked {
    mpi_host* host = nullptr; ///< null: it was given up
    connection_id id;
    int rank = 0;
    instant until{0};
  };
  struct asker {
    int rank = 0;
    std::uint32_t number = 0;
  };
  struct word {
    bytes data;
    mpi_calls::request request = 0;
  };

  bool turn();
  bool run_posted();
  void pause(instant idle);
  bool is_done();
  bool is_held_up();
  void fall(const std::string& words);

  void dial(mpi_host& host, instant now, instant patience);
  bool hear();
  void hear(int from, byte_view greeting);
  void answer(asker who);
  void take_in(asker who);
  void be_taken(std::uint32_t number, bool taken);
  void give_up_late();
  void say(int to, std::uint8_t what, std::uint32_t number);
  bool let_go();
  mpi_host::hooks hooks();
  mpi_connection::route route_to(int rank, std::uint32_t number, bool is_client) const;

  mpi_calls* mpi_;
  instant spin_;
  std::function<void(const std::string& words)> on_wait_;
  std::map<endpoint*, std::unique_ptr<mpi_host>> hosts_;
  std::vector<std::unique_ptr<mpi_host>> forgotten_; ///< may stand on the stack of this turn
  std::map<mpi_host*, int> servers_of_;              ///< the rank of a client's server
  mpi_host* server_ = nullptr;
  bool has_served_ = false;
  std::vector<asker> early_; ///< came before the server listened
  std::map<std::uint32_t, asked> asked_;
  std::uint32_t next_number_ = 1;
  std::uint64_t next_id_ = 1;
  std::list<word> words_; ///< of greetings that are under way
  std::vector<mpi_host::connection_ptr> leaving_;
  std::unique_ptr<mpi_sums> sums_; ///< null: this rank has not joined any
  std::optional<mpi_calls::request> end_;
  std::optional<instant> farewell_until_, patience_until_; ///< since it was stopped
  bool has_told_ = false;                                  ///< what it waits for
  bool is_broken_ = false;

  std::mutex mutex_; ///< of those below
  std::condition_variable called_;
  std::vector<std::function<void()>> posted_;
  bool stops_ = false;
  bool with_others_ = true;
};

} // namespace mailgrad::net
