#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/link.hpp>
#include <mailgrad/actors/worker/spawn_worker.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/tensor/device.hpp>

#include <functional>
#include <memory>

namespace mailgrad::remote {

struct worker_host_options {
  std::shared_ptr<link> by;
  device place;
  operation_registry known;
  std::shared_ptr<const time_source> time;
  /// Called with the worker when it lives.
  std::function<void(const caf::actor& worker, const worker_peers& peers)> on_begin;
};

/// The host of a worker's process. When the server has told the terms, it spawns the worker among far_actors
/// of the others; when the worker has ended, it says so as the last thing.
///
///     waiting --terms_told--> working --the worker has ended--> told
///        \--terms that it cannot read: leaves with words--/
class worker_host {
public:
  static constexpr const char* name = "mailgrad.worker-host";

  worker_host(caf::event_based_actor* self, worker_host_options options);
  caf::behavior make_behavior();

private:
  void begin(const terms_told& x);
  worker_peers meet(const parameter_layout& layout);

  caf::event_based_actor* self_;
  worker_host_options options_;
};

} // namespace mailgrad::remote
