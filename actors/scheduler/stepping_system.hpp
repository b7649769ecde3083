// A system whose actors all run on one thread, in a fixed order. The schedulers of CAF 0.17 and 1.x have
// different interfaces.
#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>

#include <deque>

#if CAF_MAJOR_VERSION >= 1
#include <caf/detail/actor_system_access.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler.hpp>
#else
#include <caf/scheduler/test_coordinator.hpp>
#endif

namespace mailgrad {

#if CAF_MAJOR_VERSION >= 1

/// A scheduler that runs one actor at a time, and only when it is asked to, as test_coordinator of CAF 0.17
/// does. This class fits CAF 1.0 and 1.1; schedulers of CAF 1.2 take more arguments.
class stepping_scheduler final : public caf::scheduler {
public:
  void schedule(caf::resumable* who) override { jobs.push_back(who); }
  void delay(caf::resumable* who) override { jobs.push_back(who); }
  void start() override {}
  void stop() override {
    while (try_run_once()) {
    }
  }

  bool try_run_once() {
    if (jobs.empty()) return false;
    caf::resumable* who = jobs.front();
    jobs.pop_front();
    if (who->resume(this, 1) == caf::resumable::resume_later)
      jobs.push_back(who);
    else
      caf::intrusive_ptr_release(who);
    return true;
  }

  std::deque<caf::resumable*> jobs; ///< actors with a message, and a reference that the scheduler owns
};

class stepping_home : caf::actor_system {
public:
  explicit stepping_home(caf::actor_system_config& config) : caf::actor_system(config, set_up, nullptr) {}

  caf::actor_system& system() noexcept { return *this; }

private:
  static void set_up(caf::actor_system& system, caf::actor_system_config&, void*) {
    caf::detail::actor_system_access(system).scheduler(std::make_unique<stepping_scheduler>());
  }
};

#else

using stepping_scheduler = caf::scheduler::test_coordinator;
using stepping_home = messaging::actor_home;

#endif

/// An actor system whose messages are delivered one by one, on the thread of the caller. The same actors that
/// send the same messages are always run in the same order: who was ready first.
///
/// A detached actor has a thread of its own also here, and what it sends comes when it likes. With
/// `all_on_one_thread` there is none but an actor that is spawned as such.
/// Threads one. All actors must have ended before the system is destroyed; its destructor delivers what is
///         under way.
class stepping_system {
public:
  explicit stepping_system(bool all_on_one_thread = false) : config_(all_on_one_thread) {}
  ~stepping_system() { run(); }
  stepping_system(const stepping_system&) = delete;
  stepping_system& operator=(const stepping_system&) = delete;

  caf::actor_system& actors() noexcept { return home_.system(); }

  /// Delivers one message to the actor that has waited longest. Returns false if no message is under way.
  bool step() { return scheduler_.try_run_once(); }

  /// Delivers messages until none is left. Returns how many steps that took.
  std::size_t run() {
    std::size_t steps = 0;
    while (step()) ++steps;
    return steps;
  }

  /// Lets so much time pass for messages that are sent later.
  /// With CAF 1.x these come by the clock of the machine.
  void let_pass([[maybe_unused]] std::chrono::nanoseconds span) {
#if CAF_MAJOR_VERSION < 1
    scheduler_.advance_time(span);
#endif
  }

  /// Whether such a message is under way.
  bool waits_for_time() {
#if CAF_MAJOR_VERSION < 1
    return scheduler_.has_pending_timeout();
#else
    return false;
#endif
  }

  /// The actors with a message, in the order in which they will run. A caller may change the order.
  std::deque<caf::resumable*>& ready() noexcept { return scheduler_.jobs; }

private:
  struct config : caf::actor_system_config {
    explicit config(bool all_on_one_thread) {
      register_messages(*this);
      opt_group{custom_options_, "mailgrad"}.add<bool>("one-thread",
                                                       "has actors that block wait for their turn");
      set(messaging::one_thread_option, all_on_one_thread);
#if CAF_MAJOR_VERSION < 1
      set("scheduler.policy", caf::atom("testing"));
#endif
    }
  } config_;
  stepping_home home_{config_};
  stepping_scheduler& scheduler_ = dynamic_cast<stepping_scheduler&>(home_.system().scheduler());
};

} // namespace mailgrad
