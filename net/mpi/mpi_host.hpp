#pragma once

#include <mailgrad/net/client_end.hpp>
#include <mailgrad/net/mpi/mpi_connection.hpp>
#include <mailgrad/net/server_end.hpp>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

namespace mailgrad::net {

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

} // namespace mailgrad::net
