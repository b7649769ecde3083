#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/scheduler/stepping_system.hpp>
#include <mailgrad/tests/support/drawn_orders.hpp>
#include <mailgrad/tests/support/manual_time.hpp>

#include <gtest/gtest.h>

// Runs actors on the test's own thread, one message at a time. The test also sets the time.

namespace mailgrad::testing {

/// A system that steps through messages in orders that a test draws.
class deterministic_system : public stepping_system {
public:
  using stepping_system::step;

  /// Delivers one message to an actor that `order` draws among those with a message.
  bool step(drawn_order& order) {
    if (ready().empty()) return false;
    std::swap(ready().front(), ready()[order.below(ready().size())]);
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
  const caf::resumable* next() { return ready().empty() ? nullptr : ready().front(); }
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
