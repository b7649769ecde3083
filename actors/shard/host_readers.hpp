#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/queue_waits.hpp>
#include <mailgrad/engine/shard/shard.hpp>

#include <list>

namespace mailgrad {

/// Serves those who read on the host what a shard has: tests, checkpoints, and the report of the run. What
/// lies on a GPU is copied first, and the actor handles other messages meanwhile.
///
///     when_copied() --all lies on the host--> then()
///       \ on a GPU: copies are queued --event passed, weights_copied--> serve() --> then()
///
/// Threads one caller at a time.
class host_readers {
public:
  /// `watch` tells when copies have come; null: that of the process, if it is needed.
  host_readers(caf::event_based_actor* self, std::shared_ptr<shard> weights,
               std::shared_ptr<event_watch> watch, std::shared_ptr<const time_source> time)
      : weights_(std::move(weights)), time_(std::move(time)), waits_(self, weights_->at(), std::move(watch)) {
  }

  /// Calls `then` when all copies have come that the shard has queued, now or from serve(), in the order of
  /// the calls.
  ///
  /// Errors  device_error, out_of_memory: no event could be recorded behind them. `then` is not called, and
  ///         those that wait go on waiting.
  void when_copied(std::function<void()> then);
  /// Calls `then` in the same way, also if the GPU is lost.
  void when_idle(std::function<void()> then) {
    waits_.when_done([then = std::move(then)](const std::exception_ptr&) { then(); });
  }
  /// Calls `then` with weights of the shard, in the same way.
  void give(const snapshot& values, std::function<void(const snapshot&)> then) {
    when_copied([then = std::move(then), copy = weights_->on_host(values)] { then(copy); });
  }

  /// Calls those whose weights have come; to be called at each `weights_copied`.
  ///
  /// Errors  device_error: the GPU is lost.
  void serve() { waits_.serve(); }

  /// "shard 0 waits for its weights to come from the GPU, for 2 of those who asked"; nothing if it does not.
  std::optional<wait_reason> blocked_on() const;

private:
  std::shared_ptr<shard> weights_;
  std::shared_ptr<const time_source> time_;
  std::list<instant> asked_; ///< when each of those asked whose copies have not come
  queue_waits waits_;
};

} // namespace mailgrad
