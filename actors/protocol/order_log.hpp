#pragma once

#include <mailgrad/actors/protocol/messages.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mailgrad {

/// Collects what an actor must tell the recorder. It sends many entries at a time, because a message for each
/// update would cost more than the update. It also sends each second, so that little is missing from the
/// recording of a killed run with slow steps.
///
/// Threads those of its actor.
class order_log {
public:
  order_log(caf::event_based_actor* self, caf::actor recorder, shard_index shard = {})
      : self_(self), recorder_(std::move(recorder)) {
    notes_.shard = shard;
  }

  /// Does nothing in a run without a recorder.
  void note(const order_entry& turn) {
    add(notes_.turns, turn);
    flush_each_second(instant{turn.arrived});
  }
  void note(const recorded_deal& deal, instant now) {
    add(notes_.deals, deal);
    flush_each_second(now);
  }
  /// Sends the entries noted so far.
  void flush();
  /// Sends them, and says that they lie before this checkpoint.
  void mark(std::uint64_t checkpoint, shard_index by);

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
