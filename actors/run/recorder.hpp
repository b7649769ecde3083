#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <functional>
#include <memory>
#include <string>

namespace mailgrad {

struct recorder_options {
  std::shared_ptr<recording_writer> file; ///< the recorder owns it while it lives
  std::function<void(const std::string&)>
      on_end; ///< called once with the reason why it could not be written, or ""
};

/// Writes what shards and the feeder note into a recording. The file appears when it is complete. The
/// recorder blocks on the file, so it needs a thread of its own.
///
///     recording --end_recording--> waiting for the feeder's last --the same from it, or its death--> ended
///         \-------------------- end_recording that names no feeder ------------------------------------/
/// Guarantees  on_end is called once, whichever other actor dies.
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

} // namespace mailgrad
