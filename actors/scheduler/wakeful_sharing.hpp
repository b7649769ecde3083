// How the threads of a run share work: by a wakeful_queue. The schedulers of CAF 1.x have another interface,
// and ThreadSanitizer would see one half of CAF's templates. In both cases CAF's own work sharing is used,
// whose threads sleep at once.
#pragma once

#include <mailgrad/actors/protocol/caf_compat.hpp>
#include <mailgrad/actors/scheduler/wakeful_queue.hpp>

#if CAF_MAJOR_VERSION < 1 && !defined(__SANITIZE_THREAD__)
#define MAILGRAD_WAKEFUL_SHARING
#include <caf/detail/log_level.hpp>
#include <caf/logger.hpp>
#include <caf/policy/unprofiled.hpp>
#include <caf/scheduler/coordinator.hpp>
#endif

namespace mailgrad {

/// Longer than the barriers of a step, and too short for a user to notice.
inline constexpr std::chrono::milliseconds patience_of_threads{2};

#ifdef MAILGRAD_WAKEFUL_SHARING
/// One queue for all threads, as a policy of CAF's scheduler.
class wakeful_sharing : public caf::policy::unprofiled {
public:
  struct coordinator_data {
    explicit coordinator_data(caf::scheduler::abstract_coordinator*) {}
    wakeful_queue<caf::resumable*> ready{patience_of_threads};
  };
  struct worker_data {
    explicit worker_data(caf::scheduler::abstract_coordinator*) {}
  };

  template <class Coordinator>
  void central_enqueue(Coordinator* self, caf::resumable* job) {
    d(self).ready.push(job);
  }
  template <class Worker>
  void external_enqueue(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }
  template <class Worker>
  void internal_enqueue(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }
  /// Called for an actor that has had its turn and has further messages.
  template <class Worker>
  void resume_job_later(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }
  /// Runs the actors that are ready. Returns a job that is not an actor, such as the end of the thread.
  ///
  /// CAF's own loop notes for its log which actor it runs, by a dynamic_cast and look-ups under a lock, and
  /// each actor does the same. That takes a sixth of the smallest step. If logging is compiled out, the
  /// thread therefore has no log.
  template <class Worker>
  caf::resumable* dequeue(Worker* self) {
    if constexpr (CAF_LOG_LEVEL == CAF_LOG_LEVEL_QUIET) caf::logger::set_current_actor_system(nullptr);
    for (;;) {
      caf::resumable* const job = d(self->parent()).ready.pop();
      if (job->subtype() != caf::resumable::scheduled_actor) return job;
      if (job->resume(self, self->max_throughput()) == caf::resumable::resume_later)
        resume_job_later(self, job);
      else
        caf::intrusive_ptr_release(job);
    }
  }
  template <class Worker, class Function>
  void foreach_resumable(Worker*, Function) {}
  template <class Coordinator, class Function>
  void foreach_central_resumable(Coordinator* self, Function f) {
    d(self).ready.drain(f);
  }
};

inline void share_work_awake(caf::actor_system_config& config) {
  config.load<caf::scheduler::coordinator<wakeful_sharing>>();
}
#else
inline void share_work_awake(caf::actor_system_config& config) { caf_compat::share_work(config); }
#endif

} // namespace mailgrad
