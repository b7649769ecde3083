#include <mailgrad/actors/shard/parameter_actor.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/shard/wait_words.hpp>

#include <fmt/format.h>

#include <utility>

// What a parameter actor tells of itself: waits, books, timeline and report.

namespace mailgrad {
using messaging::send, messaging::sender_of;

void parameter_actor::name_waits_to(const caf::actor& asker) const {
  const shard_index me = options_.weights->index();
  const instant now = options_.time->now();
  if (watch_.is_ending())
    send(self_, asker,
         wait_named{fmt::format("shard {} waits for the coordinator to take its timeline", me.value),
                    (now - watch_.told_at()).count()});
  if (const auto copies = readers_.name_wait()) send(self_, asker, *copies);
  if (next_policy_)
    send(self_, asker, wait_for_switch(me, *next_policy_, switch_asked_, workers_.all(), now));
  for (const wait_named& w :
       waits_of_workers(me, policy_->name(), workers_.all(), awaited_in_order(order_), now))
    send(self_, asker, w);
  if (!options_.waits_here) return;
  for (const wait_named& w : options_.waits_here()) send(self_, asker, w);
}

void parameter_actor::on_read(const read_shard& x, const caf::actor& asker) {
  const shard& weights = *options_.weights;
  shard_read answer{weights.index(), weights.version(), lease_.active(), {}};
  const snapshot racing = answer.in_block ? lease_.racing_values() : snapshot();
  if (answer.in_block && !racing) return send(self_, asker, answer);
  answer.in_block = false; // the asker gets copies
  const snapshot wanted = racing ? racing : weights.snapshot();
  const auto* const here = std::get_if<cuda_stream>(&weights.at()->where());
  if (here && here->device == x.card) {
    answer.values = wanted;
    return send(self_, asker, answer);
  }
  try {
    readers_.give(wanted, [this, asker, answer](const snapshot& values) mutable {
      answer.values = values;
      send(self_, asker, answer);
    });
  } catch (const out_of_memory&) {
    send(self_, asker, answer); // without values: that test fails, and the run goes on
  }
}

shard_books parameter_actor::books() const {
  shard_books x{{options_.weights->index(), options_.weights->version(), {}, {}, {}}};
  for (const worker_slot& worker : workers_.all().first(workers_.used()))
    x.so_far.workers.push_back(worker.account);
  return x;
}

std::function<void(trace_piece)> parameter_actor::trace_to_coordinator() {
  if (!options_.tells_trace_to) return nullptr;
  return [this](trace_piece piece) {
    send(self_, options_.tells_trace_to, shard_trace_told{options_.weights->index(), std::move(piece)});
  };
}

/// The rest of a timeline that is told comes first. Whoever asks again meanwhile gets one report. It may have
/// failed when no worker was left to hear of it, so the report is preceded by that.
void parameter_actor::on_report_asked() {
  if (watch_.is_ending()) return;
  watch_.end_telling([this, asker = sender_of(self_)] {
    const auto tell = [this, asker](const snapshot& values) {
      if (failure_) send(self_, asker, shard_failed{options_.weights->index(), *failure_});
      send(self_, asker, report(values));
    };
    try {
      lease_.fetch();
      readers_.give(options_.weights->snapshot(), tell);
    } catch (const out_of_memory&) {
      tell(lease_.values_at_end());
    }
  });
}

shard_report parameter_actor::report(const snapshot& values) {
  order_.flush();
  watch_.flush_gaps();
  updates_.note_distances(); // all have come, since `values` have
  shard_report r{options_.weights->index(), options_.weights->version(), {}, values, watch_.take_trace()};
  for (std::uint32_t w = 0; w < workers_.used(); ++w) {
    worker_account& account = r.workers.emplace_back(workers_[{w}].account);
    if (failure_)
      note_what_is_lost(account);
    else
      account.ledger.lost += updates_.waiting({w}); // in a batch that was never complete
    account.unjudged += order_.waiting({w});
    account.ledger.produced += account.unjudged;
    account.ledger.lost += account.unjudged;
  }
  return r;
}

/// What was counted for the update that failed is merged into it, and what waited is lost.
void parameter_actor::note_what_is_lost(worker_account& account) const {
  gradient_ledger& l = account.ledger;
  const std::uint64_t taken = l.applied + l.merged;
  l.merged += account.gaps.total() - std::min(account.gaps.total(), taken);
  l.lost += l.produced - std::min(l.produced, l.accounted_for());
}

/// An update that is under way makes a version, so it is told when that has ended.
void parameter_actor::tell_awaited() {
  if (updater_.under_way()) return;
  if (options_.awaits) tell_whom_it_awaits();
  updates_.release_credit();
}

void parameter_actor::tell_whom_it_awaits() {
  awaited now{std::nullopt, options_.weights->version()};
  if (!order_.is_followed() && !credit_is_free_) now.first = policy_->first_awaited();
  const bool as_before = told_awaited_ && told_awaited_->first == now.first &&
                         (!now.first || told_awaited_->version == now.version);
  if (as_before) return;
  told_awaited_ = now;
  options_.awaits(now.first, now.version);
}

} // namespace mailgrad
