#pragma once

#include <mailgrad/actors/messages.hpp>
#include <mailgrad/actors/recording.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {

struct recorder_options {
  std::shared_ptr<recording_writer> file; ///< nobody else holds it once the actor lives
  std::function<void(const std::string&)>
      on_end; ///< called once: why it could not be written; empty if it is
};

/// Writes what shards and the feeder note into a recording, which is there once it is whole. It blocks on the file, so it
/// wants a thread of its own.
///
///     recording --end_recording--> waiting for the feeder's last --the same from it, or its death--> ended
///         \-------------------- end_recording that names no feeder ------------------------------------/
/// Guarantees  on_end is called once, whoever dies, but itself.
class recorder {
public:
  static constexpr const char* name = "mailgrad.recorder";

  recorder(caf::event_based_actor* self, recorder_options options)
      : self_(self), options_(std::move(options)) {}
  caf::behavior make_behavior();

private:
  void on_end(const end_recording& x);
  void end(const recording_end& e);
  void end_with(const std::string& why);

  caf::event_based_actor* self_;
  recorder_options options_;
};

/// What an actor has to tell the recorder, told so much at a time: a message an update would cost more than the update.
/// And each second, so that of slow steps a run that is killed leaves as much behind.
///
/// Threads those of its actor.
class order_log {
public:
  order_log(caf::event_based_actor* self, caf::actor recorder, std::uint32_t shard = 0)
      : self_(self), recorder_(std::move(recorder)) {
    notes_.shard = shard;
  }

  /// Does nothing where nobody records.
  void note(const shard_turn& turn) {
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
