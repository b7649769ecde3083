#pragma once

#include <mailgrad/actors/protocol/messages.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mailgrad {

/// What an actor has to tell the recorder, told so much at a time: a message an update would cost more than
/// the update. And each second, so that of slow steps a run that is killed leaves as much behind.
///
/// Threads those of its actor.
class order_log {
public:
  order_log(caf::event_based_actor* self, caf::actor recorder, std::uint32_t shard = 0)
      : self_(self), recorder_(std::move(recorder)) {
    notes_.shard = shard;
  }

  /// Does nothing where nobody records.
  void note(const order_entry& turn) {
    add(notes_.turns, turn);
    flush_each_second(instant{turn.arrived});
  }
  void note(const recorded_deal& deal, instant now) {
    add(notes_.deals, deal);
    flush_each_second(now);
  }
  /// Tells what is noted so far.
  void flush();

private:
  static constexpr std::size_t entries_per_message = 1024;

  template <class Entry>
  void add(std::vector<Entry>& to, const Entry& e) {
    if (!recorder_) return;
    to.push_back(e);
    if (to.size() >= entries_per_message) flush();
  }

  void flush_each_second(instant now);

  caf::event_based_actor* self_;
  caf::actor recorder_;
  order_noted notes_;
  instant told_at_{0};
};

} // namespace mailgrad
