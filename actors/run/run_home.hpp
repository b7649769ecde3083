#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tensor/device.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mailgrad {

/// Where the actors are with which those of a home exchange messages.
enum class run_reach : std::uint8_t { this_process, other_processes };

/// For how long a thread without actors that are ready stays awake. In one process that is longer than the
/// barriers of a step, and too short for a user to notice. Where processes share a machine, such a thread
/// takes time from those of the others: there it is as short as that of a network's threads.
std::chrono::nanoseconds patience_of_threads(run_reach reach) noexcept;

/// The actor system of a run.
///
/// Threads system(): any; the rest: the owner's.
class run_home {
public:
  /// Makes a system without actors, with a thread for each core among `devices`.
  explicit run_home(const std::vector<device>& devices, run_reach reach = run_reach::this_process);

  caf::actor_system& system() noexcept { return home_.system(); }

  /// Blocks until no actor lives.
  void wait() { home_.wait(); }

private:
  struct config : caf::actor_system_config {
    config(std::size_t threads, run_reach reach);
  };

  config config_;
  messaging::actor_home home_{config_};
};

} // namespace mailgrad
