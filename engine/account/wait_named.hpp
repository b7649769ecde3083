#pragma once

#include <cstdint>
#include <string>

namespace mailgrad {

/// Shard or device to coordinator: one wait in words, such as "shard 0 waits for worker 1".
struct wait_named {
  std::string what;
  std::int64_t since = 0; ///< ns of the time source
};

} // namespace mailgrad
