#pragma once

#include <mailgrad/actors/protocol/caf_compat.hpp>
#include <mailgrad/tensor/device.hpp>

#include <cstddef>
#include <vector>

namespace mailgrad {

/// The system that the actors of a run live in.
///
/// Threads system(): any; the rest: the owner's.
class run_home {
public:
  /// It has a thread for each core among `devices`; nobody lives there yet.
  explicit run_home(const std::vector<device>& devices);

  caf::actor_system& system() noexcept { return home_.system(); }

  /// Blocks until no actor lives.
  void wait() { home_.wait(); }

private:
  struct config : caf::actor_system_config {
    explicit config(std::size_t threads);
  };

  config config_;
  actor_home home_{config_};
};

/// A core is one thread, however many workers it is named for.
std::size_t thread_count(const std::vector<device>& devices);

} // namespace mailgrad
