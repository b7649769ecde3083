#include <mailgrad/actors/shard/parameter_actor.hpp>

#include <mailgrad/actors/shard/custom_parameter_actor.hpp>
#include <mailgrad/engine/record/recorded_incarnations.hpp>

#include <mutex>

namespace mailgrad {

using messaging::drop_others, messaging::hold_others, messaging::send_anonymously;

namespace {

std::optional<recorded_order> order_to_repeat(const parameter_actor_options& o) {
  if (!o.replayed) return std::nullopt;
  return order_of(*o.replayed, o.weights->index());
}

std::string named(std::span<const std::uint32_t> awaited, std::span<const worker_slot> workers, instant now) {
  return listed_with_last_words("worker", awaited, now, [&](std::uint32_t r) { return workers[r].heard_at; });
}

const custom_parameter_actor_kind& own_kind(const parameter_actor_kind& chosen) {
  const auto* own = dynamic_cast<const custom_parameter_actor_kind*>(&chosen);
  if (!own)
    throw std::invalid_argument(fmt::format(
        "parameter actor '{}': make_custom_parameter_actor() makes one that can be spawned", chosen.name));
  return *own;
}

std::shared_ptr<device_queue> queue_of(shard_memory at) {
  // Every worker waits for an update, which takes less time than a step.
  if (at.gpu)
    return std::make_shared<cuda::gpu_queue>(at.gpu->index, product_precision::float32,
                                             cuda::runtime::urgency::first);
  return std::make_shared<host_queue>(std::move(at.blocks));
}

} // namespace

parameter_actor::parameter_actor(caf::event_based_actor* self, parameter_actor_options options)
    : actor_part(self), options_(std::move(options)), devices_(options_.ranks()),
      log_(self, options_.recorder, options_.weights->index()),
      gaps_(self, options_.tracker, *options_.time, options_.pace),
      teller_(
          {"", options_.time, options_.tells_trace_to ? options_.trace : nullptr, trace_to_coordinator()}),
      readers_(self, options_.weights, options_.watch, options_.time),
      core_(options_, *this, options_.helpers.size(), order_to_repeat(options_)),
      window_(self, std::move(options_.timer)) {
  options_.trace.reset();
  gaps_.add_counts([this] { return core_.counts(); });
}

caf::behavior parameter_actor::serving() {
  return caf::message_handler{
      on([this](const push_gradient& x) {
        bool counts = false;
        take([&] { counts = core_.push(x); });
        if (counts && !failure_) teller_.tell_if_due(options_.time->now());
      }),
      on([this](const join_shard& x) { on_join(x); }),
      on([this](const worker_left& x) { on_leave(x); }),
      on([this](const order_entry& x) { take([&] { core_.expect(x); }); }),
      on([this](const switch_policy& x) {
        take([&] {
          if (core_.switch_to(x)) coordinator_ = sender();
        });
      }),
      on([this](const free_credit&) {
        core_.free_credit();
        tell_awaited();
      }),
      on([this](const window_over& x) { take([&] { core_.close(x.moment); }); }),
      on([](const go_on&) {}), // left over from an update that a helper has ended
      on([this](const checkpoint_marker& x) {
        on_mark(core_.mark_cut(x.number, x.worker, x.step), x.collector);
      }),
      on([this](const take_checkpoint& x) { on_mark(core_.begin_cut(x.number), sender()); }),
  }
      .or_else(questions());
}

/// What it is asked in any state.
caf::message_handler parameter_actor::questions() {
  return {
      on([this](const tell_trained& x) { return trained(x); }),
      on([this](const predict_verdict& x) {
        return verdict_predicted{core_.index(), x.step, core_.will_discard(x.version_read, x.epoch)};
      }),
      // No actor waits for a GPU, so one whose device queue is at work ends later.
      on([this](const give_up&) { readers_.when_idle([this] { self_->quit(); }); }),
      on([this](const report_shard&) { on_report_asked(); }),
      on([this](const trace_taken& x) { teller_.on_taken(x); }),
      on([this](const read_shard& x) { on_read(x, sender()); }),
      on([this](const weights_copied&) { readers_.serve(); }),
      on([this](const copy_books&) { return shard_books{core_.books()}; }),
      on([this](const list_wait_reasons&) { list_wait_reasons_to(sender()); }),
  };
}

/// What the last event leaves to be done.
void parameter_actor::settle() {
  if (core_.work()) ask_for_help();
  window_.watch(core_.closes_at());
  report_cut();
  tell_awaited();
  if (const auto epoch = core_.take_switched()) send(coordinator_, policy_switched{core_.index(), *epoch});
}

// -- workers and their gradients -------------------------------------------------------------------------

void parameter_actor::on_join(const join_shard& x) {
  if (const auto before = core_.replaced_by(x.worker, x.incarnation)) on_leave({x.worker, *before});
  take([&] {
    if (!core_.give_slot(x.worker, x.incarnation)) return;
    devices_[x.worker.value] = x.device;
    begin_telling();
    core_.join(x.worker);
  });
}

void parameter_actor::answer(rank worker, shard_weights weights) {
  const caf::actor& to = devices_[worker.value];
  if (!is_elsewhere(worker)) return send(to, std::move(weights));
  weights.payload.values = options_.weights->on_host(weights.payload.values);
  weights.payload.met = options_.weights->on_host(weights.payload.met);
  readers_.when_copied([this, to, told = std::move(weights)] { send(to, told); });
}

/// A shard that follows judges no gradient that the first shard has not judged, so it counts only those that
/// it has taken.
trained_reported parameter_actor::trained(const tell_trained& x) const {
  trained_reported told{core_.index(), x.worker, x.incarnation};
  if (x.worker.value >= core_.workers().size()) return told;
  const worker_slot& worker = core_.workers()[x.worker.value];
  if (worker.incarnation != x.incarnation) return told;
  told.batches = worker.batches;
  told.gradients = worker.heard;
  told.samples = worker.samples;
  return told;
}

// -- checkpoints -----------------------------------------------------------------------------------------

/// The first shard may tell of a checkpoint before its collector is known.
void parameter_actor::report_cut() {
  if (!collector_) return;
  const auto kept = core_.finished_cut();
  if (!kept) return;
  const std::string whose = fmt::format("shard {}", core_.index().value);
  if (!kept->fields) return send(collector_, checkpoint_failed{kept->number, whose, core_.cut_failure()});
  try {
    readers_.when_copied([this, to = collector_, part = checkpoint_part{kept->number, whose, kept->fields}] {
      send(to, part);
    });
  } catch (const out_of_memory& e) { // for the event behind the copies
    send(collector_, checkpoint_failed{kept->number, whose, e.what()});
  }
}

// -- an update with helpers ------------------------------------------------------------------------------

/// Wakes no more helpers than there are parts for.
void parameter_actor::ask_for_help() {
  const std::shared_ptr<parallel_update> work = core_.work();
  const std::size_t most = std::min(options_.helpers.size(), work->parts() - 1);
  for (std::size_t h = 0; h < most; ++h) send(options_.helpers[h], help_update{work, myself()});
  hold_others(self_);
  self_->become(caf::keep_behavior, updating());
  compute_part();
}

caf::behavior parameter_actor::updating() {
  return {
      on([this](const go_on&) { compute_part(); }), on([this](const update_helped&) { end_help(); }),
      on([this](const update_failed& x) {
        core_.fail_update(x.why);
      }), // as if this actor had computed the part
  };
}

void parameter_actor::end_help() {
  self_->unbecome();
  drop_others(self_);
  core_.end_update();
  settle();
}

// -- what is told of this shard --------------------------------------------------------------------------

void parameter_actor::list_wait_reasons_to(const caf::actor& asker) const {
  const shard_index me = core_.index();
  const instant now = options_.time->now();
  if (teller_.is_ending())
    send(asker, wait_reason{fmt::format("shard {} waits for the coordinator to take its timeline", me.value),
                            (now - teller_.told_at()).count()});
  if (const auto copies = readers_.blocked_on()) send(asker, *copies);
  if (const switch_policy* next = core_.next_policy())
    send(asker, wait_for_switch(me, *next, core_.switch_asked(), core_.workers(), now));
  for (const wait_reason& w :
       waits_of_workers(me, core_.policy_name(), core_.workers(), awaited_in_order(core_.order()), now))
    send(asker, w);
  if (!options_.waits_here) return;
  for (const wait_reason& w : options_.waits_here()) send(asker, w);
}

void parameter_actor::on_read(const read_shard& x, const caf::actor& asker) {
  const shard& weights = *options_.weights;
  const hogwild_handover& lease = core_.lease();
  shard_read answer{weights.index(), weights.version(), lease.active(), {}};
  const snapshot racing = answer.in_block ? lease.racing_values() : snapshot();
  if (answer.in_block && !racing) return send(asker, answer);
  answer.in_block = false; // the asker gets copies
  const snapshot wanted = racing ? racing : weights.snapshot();
  const auto* const here = std::get_if<cuda_stream>(&weights.at()->where());
  if (here && here->device == x.gpu) {
    answer.values = wanted;
    return send(asker, answer);
  }
  try {
    readers_.give(wanted, [this, asker, answer](const snapshot& values) mutable {
      answer.values = values;
      send(asker, answer);
    });
  } catch (const out_of_memory&) {
    send(asker, answer); // without values: that test fails, and the run goes on
  }
}

/// The rest of a timeline that is told comes first. Whoever asks again meanwhile gets one report. It may have
/// failed when no worker was left to hear of it, so the report is preceded by that.
void parameter_actor::on_report_asked() {
  if (teller_.is_ending()) return;
  teller_.end([this, asker = sender()] {
    const auto tell = [this, asker](const snapshot& values) {
      if (failure_) send(asker, shard_failed{core_.index(), *failure_});
      log_.flush();
      gaps_.flush();
      send(asker, core_.report(values));
    };
    try {
      core_.lease().fetch();
      readers_.give(options_.weights->snapshot(), tell);
    } catch (const out_of_memory&) {
      tell(core_.lease().values_at_end());
    }
  });
}

void parameter_actor::tell_whom_it_awaits() {
  const awaited now{core_.first_awaited(), core_.version()};
  const bool as_before = reported_awaited_ && reported_awaited_->first == now.first &&
                         (!now.first || reported_awaited_->version == now.version);
  if (as_before) return;
  reported_awaited_ = now;
  options_.awaits(now.first, now.version);
}

// -- memory of its GPU is lacking: it keeps its weights for whoever asks ---------------------------------

/// A GPU that lacks memory works on, and an update that could not begin has changed nothing.
void parameter_actor::fail(const std::string& why) {
  failure_ = why;
  for (std::size_t r = 0; r < devices_.size(); ++r)
    if (core_.workers()[r].here) send(devices_[r], shard_failed{core_.index(), why});
  if (const auto number = core_.fail()) drop_checkpoint(*number, collector_);
  self_->become(failed());
}

caf::behavior parameter_actor::failed() {
  return caf::message_handler{
      on([this](const push_gradient& x) { core_.push(x); }),
      on([this](const join_shard& x) {
        core_.give_slot(x.worker, x.incarnation);
        send(x.device, shard_failed{core_.index(), *failure_});
      }),
      on([this](const worker_left& x) {
        if (core_.leave(x.worker, x.incarnation)) devices_[x.worker.value] = nullptr;
      }),
      on([](const order_entry&) {}),
      on([](const switch_policy&) {}),
      on([](const free_credit&) {}),
      on([](const window_over&) {}),
      on([](const go_on&) {}),
      on([this](const checkpoint_marker& x) { drop_checkpoint(x.number, x.collector); }),
      on([this](const take_checkpoint& x) { drop_checkpoint(x.number, sender()); }),
  }
      .or_else(questions());
}

/// The timer may outlive the actor and its system, so it reaches the actor by way of this alone.
struct batch_window::receiver {
  std::mutex mutex;
  caf::event_based_actor* actor; ///< null when it ends

  void tell(std::int64_t moment) {
    const std::lock_guard held(mutex);
    if (actor) send_anonymously(caf::actor_cast<caf::actor>(actor), window_over{moment});
  }
};

batch_window::batch_window(caf::event_based_actor* self, std::shared_ptr<step_timer> timer)
    : receiver_(std::make_shared<receiver>()), timer_(std::move(timer)) {
  receiver_->actor = self;
}

batch_window::~batch_window() {
  const std::lock_guard held(receiver_->mutex);
  receiver_->actor = nullptr;
}

void batch_window::watch(std::optional<std::int64_t> closes_at) {
  if (!closes_at || closes_at == asked_) return;
  asked_ = closes_at;
  if (!timer_ && messaging::is_on_one_thread(receiver_->actor->system()))
    throw std::logic_error(
        "batch_window: the timer of the process has another thread; give one to this shard");
  if (!timer_) timer_ = timer_of_process();
  timer_->at(instant{*closes_at}, [to = receiver_, moment = *closes_at] { to->tell(moment); });
}

void host_readers::when_copied(std::function<void()> then) {
  const auto mine = asked_.insert(asked_.end(), time_->now());
  waits_.when_done([this, mine, then = std::move(then)](const std::exception_ptr& why) {
    asked_.erase(mine); // not always the first: see queue_waits
    if (why) std::rethrow_exception(why);
    then();
  });
}

std::optional<wait_reason> host_readers::blocked_on() const {
  if (asked_.empty()) return std::nullopt;
  return wait_reason{fmt::format("shard {} waits for its weights to come from the GPU, for {} of those who "
                                 "asked",
                                 weights_->index().value, asked_.size()),
                     (time_->now() - asked_.front()).count()};
}

/// A shard that follows may have all gradients and still wait for the order.
wait_reason wait_for_switch(shard_index shard, const switch_policy& next, instant asked,
                            std::span<const worker_slot> workers, instant now) {
  const std::vector<std::uint32_t> awaited = awaited_before(next, workers);
  return {fmt::format("shard {} switches to {} when {}", shard.value, next.policy,
                      awaited.empty() ? "the order that it follows comes to that"
                                      : "it has the last gradient of " + named(awaited, workers, now)),
          (now - asked).count()};
}

std::string awaited_in_order(const gradient_order& order) {
  if (!order.is_followed()) return {};
  const order_entry* const entry = order.next_entry();
  if (entry == nullptr) return "shard 0 tells its turn";
  switch (entry->what) {
  case order_entry::kind::gradient:
  case order_entry::kind::missed:
    return fmt::format("it has the gradient of worker {}'s step {}, whose turn is first", entry->worker.value,
                       entry->step.value);
  case order_entry::kind::joined:
    return fmt::format("worker {} has joined here, whose turn is first", entry->worker.value);
  default:
    return "its turn comes";
  }
}

std::vector<wait_reason> waits_of_workers(shard_index shard, std::string_view policy,
                                          std::span<const worker_slot> workers, std::string_view in_order,
                                          instant now) {
  const auto awaited = numbers_where(workers.size(), [&](std::uint32_t r) {
    const worker_slot& w = workers[r];
    return w.in_policy && !w.left && !w.owed && !w.waits_since;
  });
  const std::string others =
      awaited.empty() ? "its turn comes" : "it hears from " + named(awaited, workers, now);
  std::vector<wait_reason> waits;
  for (std::uint32_t r = 0; r < workers.size(); ++r) {
    const worker_slot& worker = workers[r];
    const bool waits_for_order = worker.owed && !worker.waits_since && !in_order.empty();
    if (!worker.waits_since && !waits_for_order) continue;
    waits.push_back({fmt::format("shard {} holds worker {} after step {}, {} policy, until {}", shard.value,
                                 r, worker.waiting_step.value, policy, waits_for_order ? in_order : others),
                     (now - worker.waits_since.value_or(worker.heard_at.value_or(now))).count()});
  }
  return waits;
}

void require_spawnable(const parameter_actor_kind& kind) { own_kind(kind); }

caf::actor spawn_shard(caf::actor_system& system, shard_terms terms, parameter_actor_options with,
                       shard_memory at, const parameter_actor_kind* own) {
  with.weights = std::make_shared<shard>(*terms.layout, terms.shard.value, terms.values, terms.rule,
                                         queue_of(std::move(at)));
  with.policy = policy_spec(terms.policy, terms.slots);
  with.cure = cure_spec(terms.cure, terms.slots);
  with.workers = terms.workers;
  with.run = terms.run;
  with.slots = terms.slots;
  with.layout = std::move(terms.layout);
  with.keep_answers = terms.keep_answers;
  with.resumed = std::move(terms.resumed);
  with.same_workers = terms.same_workers;
  with.counted = std::move(terms.counted);
  with.steps = std::move(terms.steps);
  if (own) return own_kind(*own).spawn(system, std::move(with));
  return messaging::spawn<parameter_actor>(system, std::move(with));
}

} // namespace mailgrad
