#pragma once

#include <cstdint>
#include <string>

namespace mailgrad {

/// A shard or a worker sends this to the coordinator: one wait in words, as "shard 0 waits for worker 1".
struct wait_named {
  std::string what;
  std::int64_t span = 0; ///< ns that it has lasted
};

} // namespace mailgrad
