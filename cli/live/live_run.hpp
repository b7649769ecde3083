#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/cli/live/live_guard.hpp>
#include <mailgrad/cli/live/live_page.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/net/http/http_server.hpp>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

namespace mailgrad {

/// Takes the address of the page, so that a wrong one is found before a run begins.
///
/// Errors  std::system_error with the address, if nobody can listen there.
http_server listen(const live_options& options);

class live_board;

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
  std::string url() const { return guard_.url(); }

  /// Tells viewers the report of the end.
  void end(const training_report& r);

private:
  void add_routes();
  http_response answer(const http_request& asked);
  training_report report_so_far() const;
  const training_report& report();
  void stop_polling();
  void looked_at();
  void poll(const std::stop_token& stop);

  training& run_;
  const report_additions add_;
  const std::shared_ptr<live_board> board_;
  http_routes routes_;
  const machine_time time_;

  std::mutex mutex_; ///< guards the next
  bool wanted_ = false;
  std::condition_variable_any wake_;

  std::optional<training_report> report_; ///< of the server's thread, as the next
  instant reported_{0};

  const live_guard guard_;
  http_server server_; ///< its thread uses all above
  std::jthread poller_;
};

} // namespace mailgrad
