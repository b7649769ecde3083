#include <mailgrad/optim/policies/ringleader.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace mailgrad {

void ringleader_policy::join(rank worker) {
  if (workers_.size() <= worker.value) workers_.resize(worker.value + 1);
  entry& newcomer = workers_[worker.value];
  newcomer.present = newcomer.renewed = true;
  newcomer.served = !collecting_;
}

void ringleader_policy::leave(rank worker) {
  if (worker.value < workers_.size()) workers_[worker.value].present = false;
  settle();
}

decision ringleader_policy::judge(const gradient_stamp& g) {
  if (!may_start(g.worker)) return {verdict::discard, "not awaited"};
  entry& sender = workers_[g.worker.value];
  sender.renewed = false;
  if (sender.served) {
    sender.sent_early = deferred_ = true;
    return {verdict::defer};
  }
  sender.sent = waits_ = true;
  if (collecting_ && !all_have(&entry::sent)) return {verdict::merge};
  collecting_ = false;
  sender.served = sender.renewed = due_ = true;
  return {verdict::merge};
}

void ringleader_policy::batch_applied() {
  due_ = waits_ = false;
  settle();
}

bool ringleader_policy::anybody() const { return std::ranges::any_of(workers_, &entry::present); }

bool ringleader_policy::all_have(bool entry::*what) const {
  return std::ranges::all_of(workers_, [=](const entry& w) { return !w.present || w.*what; });
}

/// Ends a part of the round, or the round, if nobody is awaited in it any more.
void ringleader_policy::settle() {
  if (due_) return;
  const bool over = !anybody() || (!collecting_ && all_have(&entry::served));
  due_ = over && waits_;
  if (over && !waits_) turn_over();
  if (!anybody())
    due_ = waits_;
  else if (!due_ && all_have(&entry::sent))
    collecting_ = false;
}

void ringleader_policy::turn_over() {
  ++rounds_;
  collecting_ = true;
  waits_ = std::exchange(deferred_, false);
  for (entry& w : workers_) {
    w.sent = std::exchange(w.sent_early, false);
    w.served = false;
  }
}

void ringleader_policy::entry::keep(archive& a) {
  a.field("present", present);
  a.field("sent", sent);
  a.field("sent_early", sent_early);
  a.field("served", served);
}

void ringleader_policy::keep(archive& a) {
  const std::size_t joined = workers_.size();
  a.version(1);
  a.field("workers", workers_);
  workers_.resize(std::max(joined, workers_.size()));
  a.field("collecting", collecting_);
  a.field("waits", waits_);
  a.field("deferred", deferred_);
  a.field("due", due_);
  a.field("rounds", rounds_);
}

} // namespace mailgrad
