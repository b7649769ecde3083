#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tensor/device.hpp>

#include <cstddef>
#include <vector>

namespace mailgrad {

/// The actor system of a run.
///
/// Threads system(): any; the rest: the owner's.
class run_home {
public:
  /// Makes a system without actors, with a thread for each core among `devices`.
  explicit run_home(const std::vector<device>& devices);

  caf::actor_system& system() noexcept { return home_.system(); }

  /// Blocks until no actor lives.
  void wait() { home_.wait(); }

private:
  struct config : caf::actor_system_config {
    explicit config(std::size_t threads);
  };

  config config_;
  messaging::actor_home home_{config_};
};

} // namespace mailgrad
