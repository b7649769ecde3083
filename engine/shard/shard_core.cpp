#include <mailgrad/engine/shard/shard_core.hpp>
#include <mailgrad/optim/policies/async.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <iterator>
#include <stdexcept>

namespace mailgrad {

namespace {

void keep_state(archive& a, const shard_state& of, bool same_workers) {
  a.version(3);
  a.field("shard", of.weights);
  a.group("cure", [&] { of.updates.cure().keep(a); });
  if (!same_workers) return;
  a.field("policy", of.machine.rule());
  a.group("workers", [&] { of.workers.keep(a, of.weights, of.order.replays()); });
  of.updates.keep_waiting(a, of.machine.rule(), of.run);
  a.group("order", [&] { of.order.keep(a); });
}

std::string group_of(std::size_t gradient) { return fmt::format("gradient {}", gradient); }

/// The policy of a shard under hogwild, which workers do not ask: each that joins may start.
std::unique_ptr<policy> policy_of(const policy_spec& chosen) {
  if (auto made = chosen.make()) return made;
  return std::make_unique<async_policy>();
}

/// The first shard judges no second gradient of a worker before the others have answered the first.
void require_near(std::size_t entries, std::uint32_t workers) {
  const std::size_t most = 1024 + std::size_t{64} * workers;
  if (entries > most)
    throw std::runtime_error(fmt::format("expected a first shard that is at most {} turns ahead of this one, "
                                         "found more",
                                         most));
}

} // namespace

bool shard_cut::mark(std::uint64_t number, rank worker, step_number step) {
  if (worker.value >= markers_.size()) return false;
  const bool begun = begin(number);
  if (number == number_) markers_[worker.value] = step;
  return begun;
}

/// The run goes on without this checkpoint if memory is lacking for the copies on the host.
template <class Work>
void shard_cut::or_note(const Work& work) {
  try {
    work();
  } catch (const out_of_memory& e) {
    failure_ = e.what();
  }
}

/// Gradients that wait for their turn are kept beside the state, which is that of before their arrival.
void shard_cut::keep_now() {
  const auto wait = [this](const push_gradient& x, bool arrived) {
    worker_slot& worker = of_.workers[x.header.id.worker];
    worker.account.last_step.value = x.header.id.step.value - (arrived ? 0 : 1);
    worker.owed = arrived;
  };
  of_.order.for_each_waiting([&](const push_gradient& x) { wait(x, false); });
  kept_ = std::make_shared<saved_fields>();
  failure_.clear();
  or_note([this] {
    of_.lease.fetch();
    of_.updates.note_distances();
    keep_state(*kept_, of_, true);
  });
  of_.order.for_each_waiting([&](const push_gradient& x) { wait(x, true); });
  last_ = number_;
  of_.order.for_each_waiting([this](const push_gradient& x) { add(x); });
  of_.order.announce_kept(number_);
}

bool shard_cut::all_marked() const {
  const std::span<const worker_slot> workers = of_.workers.all();
  for (std::size_t r = 0; r < markers_.size(); ++r)
    if (!markers_[r] && !workers[r].left) return false;
  return true;
}

std::optional<kept_shard> shard_cut::finished() {
  if (number_ == 0 || !all_marked()) return std::nullopt;
  if (!kept_ && of_.order.is_led()) return std::nullopt; // its turn is still to come
  if (!kept_) keep_now();
  std::erase_if(beside_, [this](const waiting_gradient& g) { return !belongs(g.what.header.id); });
  std::size_t count = beside_.size();
  if (failure_.empty())
    or_note([&] {
      kept_->field("gradients beside", count);
      for (std::size_t i = 0; i < count; ++i)
        kept_->group(group_of(i), [&] { keep_gradient(*kept_, beside_[i], of_.weights); });
    });
  if (!failure_.empty()) kept_.reset();
  beside_.clear();
  std::ranges::fill(markers_, std::nullopt);
  return kept_shard{std::exchange(number_, 0), std::exchange(kept_, nullptr)};
}

std::optional<std::uint64_t> shard_cut::give_up() {
  if (number_ == 0) return std::nullopt;
  last_ = number_;
  kept_.reset();
  beside_.clear();
  std::ranges::fill(markers_, std::nullopt);
  return std::exchange(number_, 0);
}

std::vector<push_gradient> restore_shard(archive& a, const shard_state& to, bool same_workers) {
  keep_state(a, to, same_workers);
  std::vector<push_gradient> beside;
  if (!same_workers) return beside;
  std::size_t count = 0;
  a.field("gradients beside", count);
  for (std::size_t i = 0; i < count; ++i) {
    waiting_gradient g;
    a.group(group_of(i), [&] { keep_gradient(a, g, to.weights); });
    const rank worker = g.what.header.id.worker;
    if (worker.value >= to.workers.count())
      throw archive_error(fmt::format("{}: there is no worker {}", group_of(i), worker.value));
    g.what.header.id.run = to.run;
    if (g.read) to.updates.cure().has(worker, g.read);
    worker_slot& slot = to.workers[worker];
    slot.owed = true;
    slot.account.last_step = slot.waiting_step = g.what.header.id.step;
    beside.push_back(std::move(g.what));
  }
  return beside;
}

shard_core::shard_core(shard_core_options options, shard_port& port, std::size_t helpers,
                       const std::optional<recorded_order>& replayed)
    : port_(port), weights_(std::move(options.weights)), time_(std::move(options.time)), run_(options.run),
      first_workers_(options.workers), keep_answers_(options.keep_answers),
      workers_(options.workers, options.ranks(), run_), timeline_(time_, std::move(options.trace)),
      updates_({weights_, std::move(options.cure), time_, helpers}, workers_, port, timeline_),
      machine_(updates_, policy_of(options.policy)),
      order_(weights_->index(), options.ranks(), port, replayed ? &*replayed : nullptr),
      lease_(weights_, std::move(options.store), std::move(options.on_gpu)), cut_(state()) {
  for (std::uint32_t r = 0; r < first_workers_; ++r) machine_.rule().join({r});
  order_.begin_policy(machine_.rule().shards_agree());
  updates_.weigh(machine_.rule().weighs());
  if (options.resumed) resume(options);
  if (!options.policy.traits().needs_shards) lease_.begin(); // with the weights of the checkpoint
}

/// Workers that had an answer get the same again when they come back. The others wait for theirs from now on.
void shard_core::resume(const shard_core_options& from) {
  const std::vector<push_gradient> beside = restore_shard(*from.resumed, state(), from.same_workers);
  const instant now = time_->now();
  for (std::uint32_t r = 0; r < workers_.count() && from.same_workers; ++r) {
    worker_slot& worker = workers_[{r}];
    if (r < from.counted.size() && !from.counted[r]) worker.account = {};
    if (r < from.steps.size() && from.steps[r] == step_number{}) worker.account.last_step = {};
    worker.arrived = now;
    count_in({r});
    // It had ended, or a later incarnation had not come here yet: it joins anew, and says where it stands.
    if (!worker.returns && r < from.steps.size())
      worker.account.last_step = worker.waiting_step = from.steps[r];
    if (worker.returns && worker.owed) workers_.wait({r}, now);
    if (!worker.returns || worker.owed) continue;
    if (worker.answer.values)
      updates_.cure().has({r}, worker.answer.values);
    else
      worker.answer = {version(), updates_.cure().weights_for({r}), {}};
  }
  workers_.add_up_ledgers();
  for (const push_gradient& x : beside) {
    workers_[x.header.id.worker].waits_since.reset(); // until it is judged
    order_.arrive(x, now.count());
  }
}

/// A worker that had left comes back at the beginning of a resumed run, so a barrier waits for it.
void shard_core::count_in(rank worker) {
  if (worker.value >= first_workers_ || order_.replays() || workers_[worker].in_policy) return;
  workers_[worker].in_policy = true;
  machine_.rule().join(worker);
}

void shard_core::begin() {
  take_what_is_ready();
  has_begun_ = true;
}

// -- workers come and go ---------------------------------------------------------------------------------

/// The first incarnation of a resumed run is who took part when it was kept.
std::optional<incarnation_number> shard_core::replaced_by(rank worker, incarnation_number incarnation) const {
  if (worker.value >= workers_.count()) return std::nullopt;
  const worker_slot& now = workers()[worker.value];
  const bool leaves =
      now.returns ? incarnation != now.incarnation : workers_.is_replaced_by(worker, incarnation);
  return leaves ? std::optional(now.incarnation) : std::nullopt;
}

bool shard_core::give_slot(rank worker, incarnation_number incarnation) {
  if (failed_ || worker.value >= workers_.count()) return workers_.join(worker, incarnation);
  const bool owed = !workers_[worker].returns || workers_[worker].owed;
  if (!workers_.join(worker, incarnation)) return false;
  workers_[worker].owed = owed;
  return true;
}

/// A worker of the resumed run goes on where it was: with the answer that it had, or waiting for one.
void shard_core::join(rank worker) {
  worker_slot& newcomer = workers_[worker];
  newcomer.heard_at = time_->now();
  if (std::exchange(newcomer.returns, false)) {
    order_.come_back(worker, newcomer.incarnation);
    if (!newcomer.owed) answer(worker, {});
    return;
  }
  if (order_.never_greets(worker, newcomer.incarnation) && order_.was_cut(worker, newcomer.incarnation))
    send_home(worker);
  order_.join(worker, newcomer.incarnation);
  take_what_is_ready();
}

/// The order alone says whom the policy counts. A worker that has left already does so at a later turn.
void shard_core::greet(rank worker, incarnation_number incarnation) {
  order_.announce(order_entry::of(order_entry::kind::joined, worker, incarnation));
  worker_slot& newcomer = workers_[worker];
  newcomer.greeted = true;
  if (!newcomer.in_policy) { // its slot was empty, or an earlier incarnation has left
    newcomer.in_policy = true;
    machine_.rule().join(worker);
  }
  if (newcomer.here && newcomer.incarnation == incarnation) workers_.wait(worker, time_->now());
  release();
}

bool shard_core::leave(rank worker, incarnation_number incarnation) {
  if (failed_) return workers_.leave(worker, incarnation);
  cut_.before_leaving(worker);
  if (!workers_.leave(worker, incarnation)) return false;
  order_.leave(worker, incarnation);
  take_what_is_ready();
  return true;
}

/// `unjudged`: a gradient has arrived whose turn did not come before.
void shard_core::let_go(rank worker, incarnation_number incarnation, bool unjudged) {
  worker_slot& gone = workers_[worker];
  gone.account.unjudged += unjudged ? 1 : 0;
  if (order_.was_cut(worker, incarnation) && gone.here && gone.incarnation == incarnation && gone.owed)
    send_home(worker);
  if (!gone.in_policy) return;
  gone.in_policy = false;
  order_.announce(order_entry::of(order_entry::kind::left, worker, incarnation));
  machine_.leave(worker);
  give_places();
  updates_.cure().leave(worker);
  release();
}

// -- a gradient comes ------------------------------------------------------------------------------------

/// What comes from elsewhere is copied to the GPU at once, also if its turn is still to come.
bool shard_core::push(const push_gradient& from) {
  const gradient_id id = from.header.id;
  if (!workers_.awaits(id)) return false;
  if (!failed_) cut_.before(id);
  workers_.admit(from, time_->now());
  worker_slot& worker = workers_[id.worker];
  if (failed_) {
    workers_.lose_unjudged(id.worker);
    return false;
  }
  if (from.header.epoch != epoch_) {
    drop_stray(from.header);
    return false;
  }
  if (order_.never_takes(id)) {
    refuse(from.header);
    return false;
  }
  push_gradient x = from;
  x.payload.room.reset(); // `from` has it until this returns
  if (order_.is_followed() || !machine_.rule().first_awaited()) x.payload.credit.reset();
  if (!order_.is_followed()) worker.note_trained(x.header);
  bring(x);
  cut_.add(x);
  order_.arrive(std::move(x), worker.arrived.count());
  take_what_is_ready();
  return true;
}

/// A recording has no entry for the gradient. If its worker was lost in the recorded run, it need not wait.
void shard_core::refuse(const gradient_header& x) {
  const rank worker = x.id.worker;
  if (order_.was_cut(worker, x.id.incarnation)) {
    workers_.lose_unjudged(worker);
    return send_home(worker);
  }
  workers_.discard_unjudged(worker, updates_.gap_of(x), "no turn");
  port_.refuse(worker, x.id.step);
}

/// If a gradient of another epoch comes nevertheless, it is not judged: it was computed under another policy.
void shard_core::drop_stray(const gradient_header& x) {
  workers_.discard_unjudged(x.id.worker, updates_.gap_of(x), "other epoch");
  timeline_.moment(trace_kind::discard, x, "other epoch");
  workers_.wait(x.id.worker, workers_[x.id.worker].arrived);
  release();
}

/// If memory for it is lacking, nobody judges it any more.
void shard_core::bring(push_gradient& x) {
  try {
    x.payload.values = weights_->reachable(std::move(x.payload.values));
  } catch (const out_of_memory&) {
    workers_.lose_unjudged(x.header.id.worker);
    throw;
  }
}

// -- entries ---------------------------------------------------------------------------------------------

void shard_core::expect(const order_entry& entry) {
  if (entry.worker.value >= workers_.count()) return; // of a process that is not as it should be
  require_near(order_.ahead(), workers_.count());
  order_.expect(entry);
  take_what_is_ready();
}

void shard_core::close(std::int64_t moment) {
  order_.close(moment);
  take_what_is_ready();
}

/// Stops at an update with helpers; what is ready then waits until that has ended.
void shard_core::take_what_is_ready() {
  while (!updates_.is_updating()) {
    const auto ready = order_.next();
    if (!ready) break;
    take(*ready);
  }
  switch_if_all_taken();
}

void shard_core::take(const gradient_order::ready& ready) {
  const order_entry& entry = ready.entry;
  switch (entry.what) {
  case order_entry::kind::left:
    return let_go(entry.worker, entry.incarnation(), ready.gradient.has_value());
  case order_entry::kind::joined:
    return greet(entry.worker, entry.incarnation());
  case order_entry::kind::kept:
    return cut_.follow(entry.step.value);
  case order_entry::kind::missed:
    return take_missed(entry, ready.gradient);
  case order_entry::kind::closed:
    return take_closed(entry);
  case order_entry::kind::gradient:
  case order_entry::kind::switched: // never comes here
    return ready.gradient ? take_gradient(*ready.gradient, entry.arrived) : take_lost(entry);
  }
}

/// `arrived` is the time by which the gradient is judged, from the shard whose order is followed.
void shard_core::take_gradient(const push_gradient& x, std::int64_t arrived) {
  const gradient_header& g = x.header;
  const order_entry entry{order_entry::kind::gradient, g.id.worker, g.id.step, updates_.gap_of(g), arrived};
  order_.announce(entry);
  worker_slot& worker = workers_[g.id.worker];
  const bool waits = worker.here ? worker.incarnation == g.id.incarnation : worker.returns;
  if (worker.incarnation == g.id.incarnation && g.batches > worker.batches) worker.note_trained(g);
  if (waits) workers_.wait(g.id.worker, worker.arrived);
  workers_.produce(g.id.worker);
  timeline_.idle(!updates_.nothing_waits(), worker.arrived, order_.is_followed());
  if (!order_.is_followed()) taking_ = g.id.worker;
  updates_.may_divide(taking_ && has_begun_);
  const std::uint64_t samples = worker.take_samples(g);
  const version_number before = version();
  const decision d = judge(entry);
  switch (d.what) {
  case verdict::apply:
    updates_.make(updates_.add(x));
    break;
  case verdict::merge:
  case verdict::defer:
    keep_waiting(x, samples, d.what);
    give_places();
    break;
  case verdict::discard:
    workers_.discard(g.id.worker, updates_.gap_of(g), std::string(d.reason), g.id.incarnation);
    timeline_.moment(trace_kind::discard, g, d.reason);
    break;
  }
  if (updates_.is_updating()) return; // the answers follow the update
  taking_.reset();
  updates_.may_divide(false);
  if (machine_.rule().holds_until_update() && version() == before)
    start_if_due(g.id.worker, g.id.worker);
  else
    release(g.id.worker);
}

void shard_core::keep_waiting(const push_gradient& x, std::uint64_t samples, verdict what) {
  if (what == verdict::defer && !machine_.rule().has_rounds())
    throw std::logic_error(
        fmt::format("policy '{}' defers a gradient to its next round, and has no rounds", policy_name()));
  updates_.add_waiting(x, machine_.place(what), samples);
  if (what == verdict::merge) machine_.update_if_due();
}

/// Only what a batch that is not complete has can be of use before it is.
void shard_core::give_places() {
  const auto next = machine_.rule().first_awaited();
  if (next && !updates_.is_updating() && !updates_.nothing_waits()) updates_.give_places(*next);
}

/// Its place in the batch stays empty, so that the versions of all shards stay equal.
void shard_core::take_lost(const order_entry& entry) {
  if (!order_.replays()) {
    order_.announce({order_entry::kind::missed, entry.worker, entry.step, entry.gap, entry.arrived});
    machine_.take_lost(judge(entry).what);
    return release();
  }
  const verdict what = judge(entry).what;
  machine_.add_lost(what);
  if (what == verdict::merge && updates_.no_gradient_waits() && machine_.rule().batch_complete()) {
    // The batch is of lost gradients alone, and makes no version.
    updates_.drop_lost(machine_.rule().has_rounds() ? 0 : machine_.rule().takes_first());
    machine_.updated();
  } else if (what == verdict::merge) {
    machine_.update_if_due();
  }
  release();
}

/// In a replay the gradient comes that was lost in the recorded run. Its worker need not wait.
void shard_core::take_missed(const order_entry& entry, const std::optional<push_gradient>& late) {
  order_.announce(entry);
  order_entry here = entry;
  if (late) {
    here.gap = updates_.gap_of(late->header);
    const worker_slot& worker = workers_[entry.worker];
    workers_.lose_unjudged(entry.worker);
    if (worker.here && worker.incarnation == late->header.id.incarnation) send_home(entry.worker);
  }
  machine_.take_lost(judge(here).what);
  release();
}

/// A batch that was applied before its time was over is not closed any more.
void shard_core::take_closed(const order_entry& entry) {
  if (!order_.is_followed() && machine_.rule().closes_at() != entry.arrived) return;
  order_.announce(entry);
  machine_.close();
  release();
}

std::optional<rank> shard_core::first_awaited() const {
  if (order_.is_followed() || credit_is_free_) return std::nullopt;
  return machine_.rule().first_awaited();
}

void shard_core::end_update() {
  updates_.may_divide(false);
  if (updates_.end()) machine_.end_update();
  release(std::exchange(taking_, std::nullopt));
  switch_if_all_taken();
}

// -- answers ---------------------------------------------------------------------------------------------

void shard_core::release(std::optional<rank> just_taken) {
  workers_.each_waiting([&](rank r) { start_if_due(r, just_taken); });
}

/// Sends a waiting worker the present weights, or once more those it had, if the policy lets it start.
void shard_core::start_if_due(rank waiting, std::optional<rank> just_taken) {
  worker_slot& worker = workers_[waiting];
  if (!worker.waits_since || !machine_.may_start(waiting)) return;
  worker.owed = false;
  const auto stay = worker.end_wait(time_->now(), just_taken != waiting, updates_.batch_begun());
  if (machine_.renews(waiting) || !worker.answer.values)
    worker.answer = {version(), updates_.cure().weights_for(waiting), {}};
  worker.answer.met = std::exchange(worker.met, {});
  if (!worker.returns) answer(waiting, stay);
}

void shard_core::answer(rank worker, const std::optional<stay_at_shard>& stay) {
  worker_slot& to = workers_[worker];
  kept_answer x = keeps_answers() ? to.answer : std::exchange(to.answer, {});
  port_.answer(worker, {{index(), x.version, epoch_, stay, x.met.step, cut_.last(), to.discarded},
                        {std::move(x.values), std::move(x.met.values)}});
}

/// In a replay a worker that was lost is still there, and gets weights that it does not use, so that it ends.
void shard_core::send_home(rank worker) {
  worker_slot& lost = workers_[worker];
  lost.owed = false;
  lost.waits_since.reset();
  lost.answer = {version(), weights_->snapshot(), {}};
  answer(worker, {});
}

// -- a switch of policy ----------------------------------------------------------------------------------

bool shard_core::switch_to(const switch_policy& next) {
  if (next.present.size() < workers_.count() || next.steps.size() < workers_.count()) return false;
  next_policy_ = next;
  switch_asked_ = time_->now();
  switch_if_all_taken();
  return true;
}

void shard_core::switch_if_all_taken() {
  if (!next_policy_ || updates_.is_updating() || !all_taken(*next_policy_)) return;
  const switch_policy x = *std::exchange(next_policy_, std::nullopt);
  for (std::uint32_t r = 0; r < workers_.count() && !order_.is_followed(); ++r)
    if (!x.present[r]) let_go({r}, workers_[{r}].incarnation); // its own word may still be on its way
  order_.take_switch(std::ranges::count(x.present, 0) < std::ssize(x.present));
  begin_policy(x);
  switched_ = epoch_;
}

/// Under the new policy every worker starts from the present weights.
void shard_core::begin_policy(const switch_policy& x) {
  port_.end_gaps(); // those under the old policy say nothing about the new one
  machine_.finish();
  lease_.end();
  const policy_spec chosen(x.policy, workers_.count());
  machine_.begin(policy_of(chosen));
  order_.begin_policy(machine_.rule().shards_agree());
  updates_.weigh(machine_.rule().weighs());
  credit_is_free_ = false;
  if (!chosen.traits().needs_shards) lease_.begin();
  epoch_ = x.epoch;
  timeline_.moment(trace_kind::change_policy, {}, policy_name());
  workers_.begin_policy(x.present, time_->now());
  for (std::uint32_t r = 0; r < workers_.count() && order_.replays(); ++r)
    if (!order_.has_greeted({r}, workers_[{r}].incarnation)) workers_[{r}].waits_since.reset();
  for (std::uint32_t r = 0; r < workers_.count(); ++r)
    if (workers_[{r}].in_policy) machine_.rule().join({r});
  release(); // before anybody is let go, as where the order is given, since a cure may predict for all
  for (std::uint32_t r = 0; r < workers_.count() && !order_.is_followed(); ++r)
    if (workers_[{r}].left) let_go({r}, workers_[{r}].incarnation); // the coordinator had not yet heard of it
  take_what_is_ready();
}

// -- the end, and what is known --------------------------------------------------------------------------

std::optional<std::uint64_t> shard_core::fail() {
  failed_ = true;
  return cut_.give_up();
}

/// Versions only grow, so a gradient that is too stale now will be so when it comes.
bool shard_core::will_discard(version_number read, policy_epoch epoch) const {
  const auto most = machine_.rule().most_stale();
  return most && epoch == epoch_ && version() - read > *most;
}

shard_report shard_core::books() const {
  shard_report so_far{index(), version(), {}, {}, {}};
  for (const worker_slot& worker : workers().first(workers_.used())) so_far.workers.push_back(worker.account);
  return so_far;
}

shard_report shard_core::report(const snapshot& values) {
  updates_.note_distances(); // all have come, since `values` have
  shard_report r{index(), version(), {}, values, timeline_.take()};
  for (std::uint32_t w = 0; w < workers_.used(); ++w) {
    worker_account& account = r.workers.emplace_back(workers_[{w}].account);
    if (failed_)
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
void shard_core::note_what_is_lost(worker_account& account) const {
  gradient_ledger& l = account.ledger;
  const std::uint64_t taken = l.applied + l.merged;
  l.merged += account.gaps.total() - std::min(account.gaps.total(), taken);
  l.lost += l.produced - std::min(l.produced, l.accounted_for());
}

} // namespace mailgrad
