#pragma once

#include <mailgrad/net/stream/byte_pipe.hpp>

namespace mailgrad::net {

/// Bytes as they are.
class plain_pipe final : public byte_pipe {
public:
  /// The socket does not block, and outlives the pipe.
  explicit plain_pipe(int socket) noexcept : socket_(socket) {}

  moved read(std::span<const iovec> to) override;
  moved write(std::span<const iovec> from) override;

private:
  int socket_;
};

} // namespace mailgrad::net
