#pragma once

#include <mailgrad/actors/protocol/messages.hpp>

#include <functional>

namespace mailgrad {

struct run_observer_options {
  std::function<void(const run_event&)> on_event; ///< called by the observer for each event; may block
  std::function<void()> on_end;                   ///< called once, when nothing more will come
};

/// Hands the events of a run to a program that may take its time: files, callbacks. It needs a thread of its
/// own.
///
///     observing --event_noted--> observing --close_metrics--> closing --end_events--> ended
/// Guarantees  on_end is called once after close_metrics, also if the tracker dies.
class run_observer {
public:
  static constexpr const char* name = "mailgrad.run-observer";

  run_observer(caf::event_based_actor* self, run_observer_options options)
      : self_(self), options_(std::move(options)) {}
  caf::behavior make_behavior();

private:
  caf::event_based_actor* self_;
  run_observer_options options_;
};

} // namespace mailgrad
