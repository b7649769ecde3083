#pragma once

#include <mailgrad/net/memory/far_pages.hpp>
#include <mailgrad/net/memory/memory_dialer.hpp>
#include <mailgrad/net/memory/memory_listener.hpp>
#include <mailgrad/net/stream/stream_host.hpp>

#include <memory>
#include <string>
#include <vector>

namespace mailgrad::net {

/// One endpoint on a network of shared memory: who makes its connections.
///
/// Threads that of the network.
class memory_host final : public stream_host {
public:
  memory_host(stream_loop& loop, server_end& server) : stream_host(loop, server) {}
  memory_host(stream_loop& loop, client_end& client) : stream_host(loop, client) {}

  /// The name under which it listens.
  /// Errors  std::system_error.
  std::string listen(const std::string& name);
  void connect(const std::string& name, instant patience);

private:
  void begin_dialling(connection_id id, plane p, instant patience) override;
  void stop_making() override;
  std::string server_name() const override;

  void begin_talk(connection_id id, plane p, memory_dialer::outcome found);
  void take_in(stream_socket socket);
  void turn_away(stream_socket socket, std::string found);
  std::shared_ptr<memory_host> self() { return std::static_pointer_cast<memory_host>(shared_from_this()); }

  std::vector<std::shared_ptr<memory_listener>> listeners_;
  std::shared_ptr<memory_dialer> dialer_;
  const std::shared_ptr<far_pages> pages_ = std::make_shared<far_pages>(); ///< of all peers of a server
  std::string name_;                                                       ///< of the server, as it was told
};

} // namespace mailgrad::net
