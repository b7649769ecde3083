#pragma once

#include <mailgrad/net/timing.hpp>

#include <chrono>

namespace mailgrad::remote {

/// For how long a shard's weights stay as they are after the session with a worker that reads them has ended.
/// By then that worker knows it and has left, or it stands still and every shard has ended its session.
inline std::chrono::milliseconds kept_for(const net::timing& times) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(2 * times.silence());
}

} // namespace mailgrad::remote
