#include <mailgrad/actors/run/checkpointer.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <algorithm>
#include <utility>

// The checkpoint of the end of a run.

namespace mailgrad {
using messaging::send;

/// Another policy than hogwild has things to push and to forget at the end. Workers of hogwild go as they
/// are.
void checkpointer::begin_end(run_phase now) {
  if (at_end_.empty()) return;
  if (!active() || given_up_ || end_given_up_) return let_end(0);
  if (end_ != 0) return let_end(end_); // also one that has joined behind it
  if (now == run_phase::switches || collecting_ || !all_here()) return;
  if (in_block()) return let_end(0);
  collect();
  end_ = number_;
  for (const worker& w : workers_)
    if (!w.gone) send(self_, w.device, mark_at_end{end_});
}

/// Answers those that wait.
void checkpointer::let_end(std::uint64_t number) {
  for (const rank r : std::exchange(at_end_, {}))
    if (worker& w = workers_[r.value]; std::exchange(w.at_end, false))
      send(self_, w.device, mark_at_end{number});
}

void checkpointer::on_end_of(rank ending) {
  workers_[ending.value].at_end = true;
  at_end_.push_back(ending);
}

void checkpointer::give_up_end() {
  end_given_up_ = true;
  let_end(end_);
}

/// Whether nothing was trained behind the checkpoint of the end.
bool checkpointer::end_is_kept() const {
  std::uint64_t trained = options_.card.steps;
  for (const worker& w : workers_) trained += w.last.steps;
  return end_steps_ == trained && std::ranges::none_of(workers_, &worker::lost);
}

void checkpointer::take_last(std::function<void()> done) {
  when_done_ = std::move(done);
  if (!active() || given_up_ || last_begun_) return std::exchange(when_done_, nullptr)();
  if (writing_ || collecting_) return; // it begins when that is done
  if (end_is_kept()) return std::exchange(when_done_, nullptr)();
  last_begun_ = true;
  collect();
  ask_shards_and_feeder();
}

} // namespace mailgrad
