#pragma once

#include <mailgrad/net/mpi/mpi_host.hpp>
#include <mailgrad/net/mpi/mpi_sums.hpp>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad::net {

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
