#pragma once

#include <mailgrad/engine/shard/push_gradient.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/files/archive.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

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

/// Writes or reads a gradient as `at` needs it: of the dense part, the range of this shard. It is held, not
/// copied.
/// Errors  archive_error: other lengths than the shard has.
void keep_gradient(archive& a, waiting_gradient& g, shard& at);

/// The gradients that wait at a shard in the order in which they came, each in memory of its own.
///
/// A gradient that was lost on its way to this shard has a place, too, which is empty: every shard so takes
/// gradients of the same workers and steps into an update.
class gradient_queue {
public:
  bool empty() const noexcept { return places_.empty(); }
  std::size_t size() const noexcept { return present_; } ///< gradients, without the lost ones
  /// The number of gradients of `worker`.
  std::uint64_t of(rank worker) const;

  void add(waiting_gradient g);
  void add_lost() { places_.emplace_back(); }
  /// Takes the first `places` off, or all if there are fewer. Returns the gradients among them.
  std::vector<waiting_gradient> take(std::size_t places);
  /// Writes or reads what waits. What is read is of `run` and of so many workers, as `at` needs it.
  /// Errors  archive_error: such a worker is not there; and those of keep_gradient().
  void keep(archive& a, run_id run, shard& at, std::size_t workers);

private:
  std::deque<std::optional<waiting_gradient>> places_;
  std::size_t present_ = 0; ///< places that are not empty
};

} // namespace mailgrad
