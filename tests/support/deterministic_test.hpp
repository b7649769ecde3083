#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/protocol/register_messages.hpp>
#include <mailgrad/tests/support/drawn_orders.hpp>
#include <mailgrad/tests/support/manual_time.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <tuple>
#include <vector>

#if CAF_MAJOR_VERSION >= 1
#include <caf/detail/actor_system_access.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler.hpp>

#include <deque>
#else
#include <caf/scheduler/test_coordinator.hpp>
#endif

// Runs actors on the test's own thread, one message at a time. The test also sets the time.

namespace mailgrad::testing {

#if CAF_MAJOR_VERSION >= 1

/// A scheduler for tests like that of CAF 0.17. The one of CAF 1.x does not let the test choose the next
/// actor. This class fits CAF 1.0 and 1.1; schedulers of CAF 1.2 take more arguments.
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

  std::deque<caf::resumable*>
      jobs; ///< the actors with a message; each has one reference that the scheduler owns
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

/// An actor system whose messages are delivered one by one.
class deterministic_system {
public:
  ~deterministic_system() { run(); }

  caf::actor_system& actors() { return home_.system(); }

  /// Delivers one message to the actor that has waited longest. Returns false if no message is under way.
  bool step() { return scheduler().try_run_once(); }

  /// Delivers one message to an actor that `order` draws among those with a message.
  bool step(drawn_order& order) {
    auto& ready = scheduler().jobs;
    if (ready.empty()) return false;
    std::swap(ready.front(), ready[order.below(ready.size())]);
    return step();
  }

  /// More messages than any test needs, so that a test ends even if its actors never stop sending.
  static constexpr std::size_t endless = 100'000;

  /// Delivers messages in this order until none is left, but at most `most`. Calls `after_each` after each
  /// one.
  /// Returns how many it delivered.
  template <class AfterEach>
  std::size_t deliver(drawn_order& order, std::size_t most, AfterEach after_each) {
    std::size_t delivered = 0;
    for (; delivered < most && step(order); ++delivered) after_each();
    return delivered;
  }
  std::size_t deliver(drawn_order& order) {
    return deliver(order, endless, [] {});
  }

  /// The actor that step() would run next; null if no message is under way.
  const caf::resumable* next() {
    auto& ready = scheduler().jobs;
    return ready.empty() ? nullptr : ready.front();
  }

  std::size_t run() {
    std::size_t steps = 0;
    while (step()) ++steps;
    return steps;
  }

private:
  stepping_scheduler& scheduler() { return dynamic_cast<stepping_scheduler&>(home_.system().scheduler()); }
  struct config : caf::actor_system_config {
    config() {
      register_messages(*this);
#if CAF_MAJOR_VERSION < 1
      set("scheduler.policy", caf::atom("testing"));
#endif
    }
  } config_;
  stepping_home home_{config_};
};

/// An actor that remembers every message of the listed types that it receives.
template <class... Messages>
class probe {
public:
  static constexpr const char* name = "mailgrad.probe";
  using memory = std::tuple<std::vector<Messages>...>;

  probe(caf::event_based_actor* self, std::shared_ptr<memory> heard)
      : self_(self), heard_(std::move(heard)) {}

  /// Sends `question` first, so that it receives the answers to the sender.
  template <class Question>
  probe(caf::event_based_actor* self, std::shared_ptr<memory> heard, const caf::actor& to,
        const Question& question)
      : probe(self, std::move(heard)) {
    messaging::send(self, to, question);
  }

  caf::behavior make_behavior() {
    return {messaging::on(
        self_, [this](const Messages& x) { std::get<std::vector<Messages>>(*heard_).push_back(x); })...};
  }

private:
  caf::event_based_actor* self_;
  std::shared_ptr<memory> heard_;
};

/// A probe, and the messages it received, which the test reads.
template <class... Messages>
class listener {
public:
  template <class... Question>
  explicit listener(caf::actor_system& system, const Question&... question)
      : heard_(std::make_shared<typename probe<Messages...>::memory>()),
        actor_(messaging::spawn<probe<Messages...>>(system, heard_, question...)) {}

  const caf::actor& actor() const { return actor_; }
  template <class Message>
  std::vector<Message>& heard() {
    return std::get<std::vector<Message>>(*heard_);
  }

private:
  std::shared_ptr<typename probe<Messages...>::memory> heard_;
  caf::actor actor_;
};

/// Fixture of protocol tests. Its actors run only in step(), run() and the functions that call these.
class DeterministicTest : public ::testing::Test {
protected:
  ~DeterministicTest() override {
    for (const caf::actor& a : spawned_) messaging::kill(a);
    run();
  }

  caf::actor_system& system() { return system_.actors(); }

  /// Spawns an actor that the fixture kills at the end of the test.
  template <class State, class... Options>
  caf::actor start(Options&&... options) {
    spawned_.push_back(mailgrad::messaging::spawn<State>(system(), std::forward<Options>(options)...));
    return spawned_.back();
  }
  template <class... Messages>
  listener<Messages...> listen() {
    listener<Messages...> l(system());
    spawned_.push_back(l.actor());
    return l;
  }

  /// Delivers `message` and all messages that follow from it.
  template <class Message>
  void tell(const caf::actor& to, Message message) {
    messaging::send_anonymously(to, std::move(message));
    run();
  }

  /// Delivers `question` and all messages that follow from it. The result has the answers.
  template <class... Answers, class Question>
  listener<Answers...> ask(const caf::actor& to, const Question& question) {
    listener<Answers...> l(system(), to, question);
    spawned_.push_back(l.actor());
    run();
    return l;
  }

  bool step() { return system_.step(); }
  void run() { system_.run(); }

  const std::shared_ptr<manual_time> time_ = std::make_shared<manual_time>();

private:
  deterministic_system system_;
  std::vector<caf::actor> spawned_;
};

} // namespace mailgrad::testing
