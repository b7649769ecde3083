#pragma once

#include <mailgrad/net/memory/peer_memory.hpp>
#include <mailgrad/net/memory/shared_region.hpp>
#include <mailgrad/net/stream/byte_pipe.hpp>

#include <memory>
#include <string>

namespace mailgrad::net {

/// Bytes by memory that both sides see. The socket beside it wakes whoever sleeps, and closes with the peer's
/// process.
///
/// Guarantees  a peer that writes nonsense into the memory ends its own connection alone.
class memory_pipe final : public byte_pipe {
public:
  enum class side : std::uint8_t { server, client };

  /// The socket does not block, and outlives the pipe.
  memory_pipe(int socket, shared_region region, side s, std::shared_ptr<shared_heap> lends = {},
              std::shared_ptr<far_pages> pages = std::make_shared<far_pages>());
  ~memory_pipe() override;

  /// What both sides lend each other, which may outlive the pipe.
  const std::shared_ptr<peer_memory>& memory() const noexcept { return memory_; }

  moved read(std::span<const iovec> to) override;
  moved write(std::span<const iovec> from) override;
  bool call_for_input() override;
  bool tells_room_as_input() const noexcept override { return true; }
  bool has_room() override;
  bool call_for_room() override;

private:
  moved failure() const;
  void call_peer() const noexcept;
  void hear_calls() noexcept;

  int socket_;
  std::shared_ptr<peer_memory> memory_;
  shared_region region_;
  ring_writer out_;
  ring_reader in_;
  bool calls_ = false;   ///< for input
  bool hung_up_ = false; ///< the peer writes no more
  std::string broken_;   ///< why the peer is believed no more; empty while it is
};

} // namespace mailgrad::net
