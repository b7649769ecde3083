#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/cli/live/live_guard.hpp>
#include <mailgrad/cli/live/live_page.hpp>
#include <mailgrad/engine/account/metrics_line.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/net/http/http_message.hpp>
#include <mailgrad/net/http/http_server.hpp>

#include <functional>
#include <memory>
#include <string>

namespace mailgrad {

/// Takes the address of the page, so that a wrong one is found before a run begins.
///
/// Errors  std::system_error with the address, if nobody can listen there.
http_server listen(const live_options& options);

/// Shows a run on a page in the browser while it goes on. The page gets the lines of metrics as they come,
/// and once a second, while somebody looks, what the report would say now and what actors wait for.
/// docs/live.md describes it.
///
/// Guarantees  no actor of the run waits for a viewer, and a viewer that is too slow is cut off.
/// Threads     the owner's; it has two of its own.
class live_run {
public:
  /// Adds to a report so far what only the tool knows, such as the model's name. It is called by both threads
  /// of the page.
  using report_additions = std::function<void(training_report&)>;

  /// The run must outlive this. `server` listens, and serves from now on. `model` is the name on the page.
  live_run(training& run, std::string model, bool keeps_checkpoints, const live_options& options,
           http_server server, report_additions add);
  /// Ends the page, after what viewers are still to be told.
  ~live_run();
  live_run(const live_run&) = delete;
  live_run& operator=(const live_run&) = delete;

  /// The address of the page, with the token that it asks for.
  std::string url() const;

  /// Tells viewers the report of the end.
  void end(const training_report& r);

private:
  class implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace mailgrad
