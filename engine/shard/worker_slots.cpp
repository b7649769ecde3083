#include <mailgrad/engine/shard/worker_slots.hpp>

#include <fmt/format.h>

namespace mailgrad {

std::optional<stay_at_shard> worker_slot::end_wait(instant now, bool by_others, instant barrier_opened) {
  const instant waited_since = *waits_since;
  const bool at_barrier = by_others && merged && barrier_opened > waited_since;
  const bool at_bound = by_others && !merged;
  waits_since.reset();
  merged = false;
  if (waiting_step == step_number{}) return std::nullopt;
  stay_at_shard stay;
  stay.in_mailbox = in_mailbox.value_or(instant{0}).count();
  if (at_barrier) stay.until_barrier = (barrier_opened - waited_since).count();
  if (at_bound) stay.under_bound = (now - waited_since).count();
  stay.until_answered = (now - arrived).count();
  return stay;
}

void worker_slot::begin(incarnation_number next) {
  incarnation = next;
  account.last_step = waiting_step = discarded = {};
  batches = samples = judged = heard = 0;
  heard_at.reset();
  merged = left = empty = false;
  met = {};
}

worker_slots::worker_slots(std::uint32_t workers, std::uint32_t slots, run_id run)
    : run_(run), slots_(slots), used_(workers), may_wait_((slots + 63) / 64) {
  for (std::uint32_t r = workers; r < slots; ++r) {
    slots_[r].in_policy = false;
    slots_[r].left = slots_[r].empty = true;
  }
}

bool worker_slots::join(rank worker, incarnation_number incarnation) {
  if (worker.value >= slots_.size()) return false;
  worker_slot& w = slots_[worker.value];
  if (incarnation < w.incarnation || (incarnation == w.incarnation && w.left && !w.empty)) return false;
  if (incarnation > w.incarnation || w.empty) w.begin(incarnation);
  used_ = std::max(used_, worker.value + 1);
  w.here = w.owed = true;
  return true;
}

bool worker_slots::awaits(const gradient_id& id) const {
  if (id.run != run_ || id.worker.value >= slots_.size()) return false;
  const worker_slot& worker = slots_[id.worker.value];
  if (!worker.here || id.incarnation != worker.incarnation) return false; // not joined, left, or joined anew
  return id.step > worker.account.last_step; // a gradient delivered twice counts once
}

void worker_slots::admit(const push_gradient& x, instant now) {
  const gradient_id& id = x.header.id;
  worker_slot& worker = slots_[id.worker.value];
  worker.account.last_step = worker.waiting_step = id.step;
  ++worker.heard;
  worker.arrived = now;
  worker.heard_at = now;
  worker.owed = true;
  worker.in_mailbox.reset();
  if (x.payload.sent) worker.in_mailbox = now - *x.payload.sent;
  worker.account.times.arrive(x.header.times, worker.in_mailbox);
}

bool worker_slots::leave(rank worker, incarnation_number incarnation) {
  if (worker.value >= slots_.size()) return false;
  worker_slot& w = slots_[worker.value];
  if (incarnation < w.incarnation || (incarnation == w.incarnation && w.left && !w.empty)) return false;
  if (incarnation > w.incarnation || w.empty)
    w.begin(incarnation); // its join, if it is under way, comes too late
  w.waits_since.reset();
  w.owed = w.returns = w.here = false;
  w.left = true;
  return true;
}

void worker_slots::produce(rank worker) {
  ++slots_[worker.value].account.ledger.produced;
  ++produced_;
}

void worker_slots::discard(rank worker, std::uint64_t gap, const std::string& reason, incarnation_number of) {
  worker_slot& w = slots_[worker.value];
  ++w.account.ledger.discarded[reason];
  ++discarded_;
  w.account.discarded_gaps.count(gap);
  if (of == w.incarnation) w.discarded = w.waiting_step;
}

void worker_slots::add_up_ledgers() {
  produced_ = applied_ = merged_ = discarded_ = 0;
  for (const worker_slot& w : slots_) {
    produced_ += w.account.ledger.produced;
    applied_ += w.account.ledger.applied;
    merged_ += w.account.ledger.merged;
    discarded_ += w.account.ledger.discarded_in_all();
  }
}

void worker_slots::begin_policy(std::span<const std::uint8_t> present, instant now) {
  for (std::size_t r = 0; r < slots_.size(); ++r) {
    worker_slot& worker = slots_[r];
    worker.in_policy = present[r] != 0;
    worker.merged = false;
    worker.waits_since.reset();
    if (!worker.in_policy || !worker.here) continue;
    wait({static_cast<std::uint32_t>(r)}, now); // the device counts the wait until now
    worker.owed = true;
  }
}

namespace {

void keep_snapshot(archive& a, std::string_view name, snapshot& values, shard& of) {
  bool present = static_cast<bool>(values);
  a.field(fmt::format("has {}", name), present);
  if (!present) return;
  if (a.reads())
    values = of.restored(a.array(name));
  else
    of.keep(a, name, values);
}

void keep_slot(archive& a, worker_slot& w, shard& of) {
  a.fields({"account", "merged", "in_policy", "owed", "judged", "met_step"}, w.account, w.merged, w.in_policy,
           w.owed, w.judged, w.met.step);
  keep_snapshot(a, "met", w.met.values, of);
  a.field("answer_version", w.answer.version);
  keep_snapshot(a, "answer", w.answer.values, of);
  a.field("answer_met_step", w.answer.met.step);
  keep_snapshot(a, "answer_met", w.answer.met.values, of);
}

} // namespace

void worker_slots::keep(archive& a, shard& of, bool all_return) {
  std::size_t workers = slots_.size();
  a.field("count", workers);
  if (workers != slots_.size())
    throw archive_error(fmt::format("expected {} workers, found {}", slots_.size(), workers));
  for (std::size_t r = 0; r < workers; ++r) {
    worker_slot& w = slots_[r];
    bool returns = w.greeted && (w.in_policy || all_return);
    a.group(fmt::format("worker {}", r), [&] {
      a.field("returns", returns);
      keep_slot(a, w, of);
    });
    if (!a.reads()) continue;
    w.waiting_step = w.account.last_step;
    w.returns = w.greeted = returns;
  }
  if (a.reads()) add_up_ledgers();
}

std::vector<std::uint32_t> awaited_before(const switch_policy& next, std::span<const worker_slot> workers) {
  std::vector<std::uint32_t> awaited;
  for (std::uint32_t r = 0; r < workers.size(); ++r) {
    if (!next.present[r]) continue;
    const bool unheard_of =
        workers[r].empty || (!next.incarnations.empty() && workers[r].incarnation < next.incarnations[r]);
    if (workers[r].left && !unheard_of) continue;
    if (unheard_of || !workers[r].here || workers[r].account.last_step < next.steps[r]) awaited.push_back(r);
  }
  return awaited;
}

} // namespace mailgrad
