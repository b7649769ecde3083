#pragma once

#include <mailgrad/tests/support/deterministic_test.hpp>
#include <mailgrad/tests/support/interleavings.hpp>

#include <algorithm>
#include <deque>
#include <functional>

namespace mailgrad::testing {

/// Takes each message out of the mailbox that it was sent to, and puts it back when the test wants it
/// handled. The test thus decides the order in which an actor receives messages from different senders.
///
/// Actors that were not given to the constructor handle their messages at once.
class held_messages {
public:
  struct held {
    line on;
    const caf::mailbox_element* what = nullptr; ///< lives until it is delivered
  };

  /// The actors must not have run yet. Messages for which `never_heard` returns true are dropped.
  held_messages(deterministic_system& system, const std::vector<caf::actor>& actors,
                std::function<bool(const caf::mailbox_element&)> never_heard)
      : system_(system), never_heard_(std::move(never_heard)) {
    for (const caf::actor& a : actors)
      actors_.push_back(dynamic_cast<caf::scheduled_actor*>(caf::actor_cast<caf::abstract_actor*>(a)));
  }

  /// Lets all actors start. Returns the messages that they send.
  std::vector<held> begin() { return run_all(); }

  /// The first message on a line.
  const caf::mailbox_element& first(line on) const { return *lines_.at(on).front(); }

  /// Delivers the first message on a line. Returns the messages that the receiver then sends.
  std::vector<held> deliver(line on) {
    caf::mailbox_element_ptr what = std::move(lines_.at(on).front());
    lines_.at(on).pop_front();
    actors_[on.to]->enqueue(std::move(what), nullptr);
    std::vector<held> sent = run_all();
    if (has_ended(on.to))
      for (auto& [other, messages] : lines_)
        if (other.to == on.to) messages.clear();
    return sent;
  }

  bool has_ended(place actor) const { return actors_[actor]->mailbox().closed(); }

private:
  /// Runs all actors that are ready. A message to an actor is taken out before the actor runs.
  std::vector<held> run_all() {
    std::vector<held> sent;
    while (const caf::resumable* next = system_.next()) {
      const auto who = std::ranges::find_if(
          actors_, [&](caf::scheduled_actor* a) { return static_cast<caf::resumable*>(a) == next; });
      system_.step();
      take(static_cast<place>(who - actors_.begin()), sent);
    }
    return sent;
  }

  void take(place from, std::vector<held>& sent) {
    for (std::size_t to = 0; to < actors_.size(); ++to) {
      auto& mailbox = actors_[to]->mailbox();
      if (mailbox.closed() || mailbox.blocked()) continue;
      const line on{from, static_cast<place>(to)};
      while (caf::mailbox_element_ptr what = first_of(mailbox)) {
        if (never_heard_(*what)) continue;
        sent.push_back({on, what.get()});
        lines_[on].push_back(std::move(what));
      }
    }
  }

  static caf::mailbox_element_ptr first_of(auto& mailbox) {
#if CAF_MAJOR_VERSION >= 1
    return mailbox.pop_front();
#else
    mailbox.fetch_more();
    return std::get<caf::scheduled_actor::normal_queue_index>(mailbox.queue().queues()).take_front();
#endif
  }

  deterministic_system& system_;
  std::function<bool(const caf::mailbox_element&)> never_heard_;
  std::vector<caf::scheduled_actor*> actors_;
  std::map<line, std::deque<caf::mailbox_element_ptr>> lines_;
};

} // namespace mailgrad::testing
