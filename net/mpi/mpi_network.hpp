#pragma once

#include <mailgrad/net/all_reduce.hpp>
#include <mailgrad/net/mpi/mpi_calls.hpp>
#include <mailgrad/net/network.hpp>

namespace mailgrad::net {

class mpi_loop;

struct mpi_options {
  /// How long the thread looks again and again before it pauses between two looks.
  std::chrono::microseconds spin = usual_spin();
  /// For how long connect() waits for a server that does not listen yet.
  std::chrono::milliseconds patience{10'000};
  /// Told once, on the network's thread, what the end of a server's rank waits for, if it does for 2 s.
  std::function<void(const std::string& words)> on_wait{};
};

/// Connections between the ranks of one MPI_COMM_WORLD, by messages of MPI from rank to rank. Every rank has
/// to have such a network, since MPI begins and ends with all of them.
///
///     mpi_network net(mpi_of_this_machine());
///     if (net.rank() == 0) net.listen(server, "mpi:0");
///     else net.connect(client, "mpi:0");
///
/// MPI belongs to a thread of the network's own, which begins it and ends it. It has nothing to sleep on: an
/// idle thread looks once in 1 ms at the latest.
/// Guarantees  those of tcp_network as long as MPI keeps its own. A rank that dies ends all of them, as MPI
///             does; one that stops amid a message stops who receives it.
/// Errors  listen(): std::invalid_argument for an address that is not of this rank, or a second server.
///         connect(): std::invalid_argument for an address that is none. What goes wrong later ends the
///         session in one line.
/// Threads as tcp_network.
class mpi_network final : public network {
public:
  /// Waits until every rank has one. The first in a process is the only one.
  /// Errors  std::runtime_error with MPI's words. std::invalid_argument if a time is negative.
  explicit mpi_network(std::unique_ptr<mpi_calls> mpi, const mpi_options& options = {});
  /// Forgets every endpoint, and waits until every rank has come to its end, unless it was abandoned. The
  /// rank of a server waits for no rank that was lost.
  ~mpi_network() override;

  int rank() const noexcept;
  /// How many ranks there are.
  int size() const noexcept;
  /// Takes part in sums of so many floats over all ranks but rank 0, each of which has to join them. Rank r
  /// is worker r - 1 of a sum. Once; what it returns must go before the network. The end of the network then
  /// waits until every rank has left the sums.
  /// Errors  std::invalid_argument on rank 0, or for a second time.
  std::unique_ptr<all_reduce> join_sums(std::size_t floats);
  /// This rank has failed: the end does not wait for the others, which may wait for this one. It leaves MPI
  /// as it is, so the process has to end, and then the launcher ends the other ranks.
  void abandon() noexcept;

  std::string listen(server_end& server, const std::string& address) override;
  void connect(client_end& client, const std::string& address) override;
  void forget(endpoint& e) override;
  /// Nothing is done if the endpoint is not known.
  void post(endpoint& e, std::function<void(instant now)> work) override;
  instant now() const noexcept override;

private:
  std::unique_ptr<mpi_loop> loop_;
};

} // namespace mailgrad::net
