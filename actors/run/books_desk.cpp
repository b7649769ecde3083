#include <mailgrad/actors/run/books_desk.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <algorithm>

namespace mailgrad {
using messaging::send_anonymously;

/// The coordinator answers the second question at once. Half of the span is left for it.
std::optional<run_outcome> books_desk::ask(const caf::actor& coordinator, std::chrono::milliseconds span) {
  std::unique_lock lock(mutex_);
  const std::uint64_t request = ++requests_;
  const auto answered = [&] { return closed_ || answered_ >= request; };
  send_anonymously(coordinator, gather_books{request});
  if (!told_.wait_for(lock, span / 2, answered)) {
    send_anonymously(coordinator, tell_books{request});
    told_.wait_for(lock, span - span / 2, answered);
  }
  return books_;
}

void books_desk::take(std::uint64_t request, const run_outcome& books) {
  std::lock_guard guard(mutex_);
  answered_ = std::max(answered_, request);
  books_ = books;
  told_.notify_all();
}

void books_desk::close() {
  std::lock_guard guard(mutex_);
  closed_ = true;
  told_.notify_all();
}

} // namespace mailgrad
