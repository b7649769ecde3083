#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/account/run_outcome.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace mailgrad {

/// Where threads that are no actors ask for the books of a run in progress.
///
/// Threads any.
class books_desk {
public:
  /// Asks the coordinator for the books of all actors. The result is the newest that is known within `span`,
  /// also if some actors have not answered by then, or the run has ended; nothing if none is known yet. If
  /// not even the coordinator answers, the books of an earlier question say how old they are by now.
  std::optional<run_outcome> ask(const caf::actor& coordinator, std::chrono::milliseconds span);

  /// The coordinator's callback (book_keeper::teller).
  void take(std::uint64_t request, const run_outcome& books);
  /// The run has ended, and nobody need wait for an answer.
  void close();

private:
  std::mutex mutex_; ///< guards all below
  std::condition_variable told_;
  std::uint64_t requests_ = 0;
  std::uint64_t answered_ = 0; ///< the last request whose books are here
  bool closed_ = false;
  std::optional<run_outcome> books_;
  std::chrono::steady_clock::time_point taken_{}; ///< when they came
};

} // namespace mailgrad
