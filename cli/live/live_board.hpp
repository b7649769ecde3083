#pragma once

#include <mailgrad/cli/live/live_state.hpp>
#include <mailgrad/engine/account/metrics_curve.hpp>
#include <mailgrad/engine/account/run_event.hpp>
#include <mailgrad/net/http/http_server.hpp>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

namespace mailgrad {

/// What viewers of the live page know: whoever comes late is told all at once, the others each event as it
/// comes. A line may come twice to a viewer that has just begun; the page knows it by its time.
///
/// Threads any. It may outlive its server, because the observer of a run may call take() until the run ends.
class live_board {
public:
  void describe(live_beginning what);
  /// Tells all further events to the viewers of this server, until close().
  void open(http_server& server);
  void close();

  void take(const run_event& e);
  /// A state_event() of a run that goes on.
  void show(std::string state);
  /// That of its end.
  void end(std::string state);

  /// The events for a viewer that has just come.
  std::string beginning() const;
  std::optional<metrics_line> last_line() const;
  std::string model() const;

private:
  void publish(std::string_view name, const std::string& data) const;

  mutable std::mutex mutex_; ///< guards all below
  http_server* server_ = nullptr;
  live_beginning known_;
  metrics_curve curve_;
  std::optional<metrics_line> last_;
  bool ended_ = false;
};

} // namespace mailgrad
