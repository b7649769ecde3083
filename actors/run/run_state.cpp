#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/run/run_state.hpp>

namespace mailgrad {

using messaging::send_anonymously;

std::vector<std::string> run_state::reported_waits(const std::function<void()>& ask,
                                                   std::chrono::milliseconds span) {
  std::vector<std::string> waits;
  std::unique_lock lock(mutex_);
  listeners_.push_back(&waits);
  ask();
  end_.wait_for(lock, span, [this] { return outcome_.has_value(); });
  std::erase(listeners_, &waits);
  return waits;
}

namespace {

/// Whoever has told these books has told nothing since, so that all of their shards are late.
void age(run_outcome& books, double seconds) {
  std::vector<bool> is_late;
  const auto note = [&is_late](std::uint32_t shard) {
    is_late.resize(std::max<std::size_t>(is_late.size(), shard + 1));
    is_late[shard] = true;
  };
  for (late_figures& x : books.late) {
    note(x.shard);
    if (x.seconds_old) *x.seconds_old += seconds;
  }
  for (const shard_report& s : books.shards)
    if (s.shard.value >= is_late.size() || !is_late[s.shard.value])
      books.late.push_back({s.shard.value, seconds});
  std::ranges::sort(books.late, {}, &late_figures::shard);
}

} // namespace

/// The coordinator answers the second question at once. Half of the span is left for it.
std::optional<run_outcome> status_cache::ask(const caf::actor& coordinator, std::chrono::milliseconds span) {
  std::unique_lock lock(mutex_);
  const std::uint64_t request = ++requests_;
  const auto answered = [&] { return closed_ || answered_ >= request; };
  send_anonymously(coordinator, gather_books{request});
  if (!told_.wait_for(lock, span / 2, answered)) {
    send_anonymously(coordinator, tell_books{request});
    told_.wait_for(lock, span - span / 2, answered);
  }
  std::optional<run_outcome> books = books_;
  if (books && !answered())
    age(*books, std::chrono::duration<double>(std::chrono::steady_clock::now() - taken_).count());
  return books;
}

void status_cache::take(std::uint64_t request, const run_outcome& books) {
  std::lock_guard guard(mutex_);
  answered_ = std::max(answered_, request);
  books_ = books;
  taken_ = std::chrono::steady_clock::now();
  told_.notify_all();
}

} // namespace mailgrad
