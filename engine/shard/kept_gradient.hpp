#pragma once

#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/files/archive.hpp>

#include <cstdint>

namespace mailgrad {

/// A gradient that waits for its update.
struct waiting_gradient {
  push_gradient what;
  snapshot read;             ///< the weights it was computed from; empty unless the cure needs them
  std::uint64_t samples = 0; ///< it is of, or of as many steps as its worker took for it
};

/// Writes or reads the header of a gradient. The run and the epoch are not kept: they are those of the run
/// that goes on. Neither are its times, which a shard has counted when the gradient arrived.
void keep_header(archive& a, gradient_header& x);

/// Writes or reads a gradient as `at` needs it: of the dense part, the range of this shard. The gradient is
/// held and not copied.
///
/// Errors  archive_error: other lengths than the shard has.
void keep_gradient(archive& a, waiting_gradient& g, shard& at);

} // namespace mailgrad
