#pragma once

#include <mailgrad/tests/support/deterministic_test.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace mailgrad::testing {

/// An actor that does what the test wants of it. What sends messages must run in a handler.
class played_actor {
public:
  static constexpr const char* name = "mailgrad.played-actor";
  using task = std::function<void()>;

  played_actor(caf::event_based_actor* self, caf::event_based_actor** me, std::shared_ptr<task> next)
      : next_(std::move(next)) {
    *me = self;
  }
  caf::behavior make_behavior() {
    return {[this](const std::string&) { (*next_)(); }};
  }

private:
  std::shared_ptr<task> next_;
};

/// Fixture of classes that an actor owns: the test plays that actor.
class PlayedActorTest : public DeterministicTest {
protected:
  PlayedActorTest() {
    actor_ = start<played_actor>(&self_, next_);
    run(); // it begins to live with its first turn
  }

  /// Lets the worker's actor call `f`, and delivers what follows from it.
  void act(const played_actor::task& f) {
    *next_ = f;
    tell(actor_, std::string("act"));
  }

  const std::shared_ptr<played_actor::task> next_ = std::make_shared<played_actor::task>();
  caf::actor actor_;
  caf::event_based_actor* self_ = nullptr;
};

} // namespace mailgrad::testing
