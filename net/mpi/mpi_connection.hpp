#pragma once

#include <mailgrad/net/endpoint.hpp>
#include <mailgrad/net/mpi/mpi_calls.hpp>

#include <array>
#include <deque>
#include <string>

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

} // namespace mailgrad::net
