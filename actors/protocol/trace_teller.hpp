#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/account/trace_track.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace mailgrad {

/// Tells the timeline of a worker or a shard to a coordinator in another process, in pieces, since the
/// coordinator must have what happened before the actor is lost.
///
/// Guarantees  a piece is under way only when the coordinator has answered the one before, so at most one
///             lies in front of a gradient, also on a slow network. What has not been told stays in the
///             track, which has its own bound.
/// Threads     those of the actor that owns it.
class trace_teller {
public:
  struct options {
    std::string device; ///< of a worker
    std::shared_ptr<const time_source> time;
    std::shared_ptr<const trace_track> track; ///< null: nothing is told
    std::function<void(trace_piece)> tell;    ///< sends a piece to the coordinator
  };

  explicit trace_teller(options o) : options_(std::move(o)) {}

  /// The actor takes part. A first piece, which has no events, shows how far the clocks are apart.
  void begin();
  /// A step has been computed and pushed, or a gradient judged. Tells of it if there is a whole piece, or
  /// enough time has passed.
  void tell_if_due(instant now);
  /// The coordinator has the last piece.
  void on_taken(const trace_taken&);
  /// The actor ends. `then` is called when the last of what is left is under way, which may be at once.
  void end(std::function<void()> then);
  /// Nobody answers any more, so an end waits for no answer.
  void give_up();
  instant told_at() const { return told_at_; }
  bool is_ending() const { return then_ != nullptr; }
  bool tells() const { return options_.track != nullptr; }

private:
  std::size_t untold() const { return options_.track->events().size() - told_; }
  void tell();
  void tell_rest();
  void close();

  options options_;
  std::size_t told_ = 0; ///< events
  bool under_way_ = false;
  instant told_at_{0};
  std::optional<std::int64_t> answered_; ///< of the last piece, until it is told
  std::function<void()> then_;           ///< set while the actor ends
};

} // namespace mailgrad
