#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/account/trace_track.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace mailgrad {

/// Tells the timeline of a worker to a coordinator in another process, in pieces, since the coordinator must
/// have what happened before the worker is lost.
///
/// Guarantees  a piece is under way only when the coordinator has answered the one before, so at most one
///             lies in front of a gradient, also on a slow network. What has not been told stays in the
///             track, which has its own bound.
/// Threads     those of the device actor that owns it.
class trace_teller {
public:
  struct options {
    rank worker;
    incarnation life{};
    std::string device;
    caf::actor coordinator;
    std::shared_ptr<const time_source> time;
    std::shared_ptr<const trace_track> track; ///< null: nothing is told
  };

  trace_teller(caf::event_based_actor* self, options o) : self_(self), options_(std::move(o)) {}

  /// The worker takes part. A first piece, which has no events, shows how far the clocks are apart.
  void begin();
  /// A step has been computed and pushed. Tells of it if there is a whole piece, or enough time has passed.
  void tell_if_due(instant now);
  /// The coordinator has the last piece.
  void on_taken(const trace_taken&);
  /// The worker ends. `then` is called when the last of what is left is under way, which may be at once.
  void end(std::function<void()> then);
  /// Nobody answers any more, so an end waits for no answer.
  void give_up();
  instant told_at() const { return told_at_; }
  bool is_ending() const { return then_ != nullptr; }

private:
  std::size_t untold() const { return options_.track->events().size() - told_; }
  void tell();
  void tell_rest();
  void close();

  caf::event_based_actor* self_;
  options options_;
  std::size_t told_ = 0; ///< events
  bool under_way_ = false;
  instant told_at_{0};
  std::optional<std::int64_t> answered_; ///< of the last piece, until it is told
  std::function<void()> then_;           ///< set while the worker ends
};

} // namespace mailgrad
