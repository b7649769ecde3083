#include <mailgrad/actors/run/feeder.hpp>

namespace mailgrad {

namespace {

std::shared_ptr<batch> make_batch(const feeder_options& options) {
  auto made = std::make_shared<batch>();
  shape_batch(*options.samples, options.deal.batch_size, options.nonzeros, *made);
  return made;
}

} // namespace

feeder::feeder(caf::event_based_actor* self, feeder_options options)
    : actor_part(self), options_(std::move(options)), dealer_(options_.deal),
      batches_([this] { return make_batch(options_); }), log_(self, options_.recorder),
      cut_({options_.deal.ranks, std::max(options_.deal.ranks, options_.deal.slots), options_.under_way,
            options_.resumed ? options_.resumed->trained : std::vector<std::uint64_t>()}) {
  if (options_.replayed) replayed_.emplace(options_.replayed);
  if (options_.resumed) resume(*options_.resumed);
}

/// Batches that are to be dealt again do not count as dealt.
void feeder::resume(const feeder_position& from) {
  if (replayed_) return replayed_->go_on_from(from.trained, from.switches);
  dealer_.go_on_from(from.batches);
  dealt_ = from.batches.undealt - std::min<std::uint64_t>(from.batches.undealt, from.batches.again.size());
  last_due_ = dealt_;
  hold_if_reached();
}

caf::behavior feeder::dealing() {
  return caf::message_handler{
      on([this](const next_batch& x) {
        on_next(x, {sender(), x.has_samples});
      }),
      on([this](const give_up&) { self_->quit(); }),
      on([this](const stop_dealing&) { stop(); }),
      on([this](const worker_left& x) { on_leave(x); }),
      on([this](const share_lost& x) { on_lost(x); }),
      on([this](const deal_again& x) { take_back(x); }),
      on([this](const count_undealt&) { return undealt_counted{dealer_.undealt()}; }),
      on([this](const end_recording& x) { end(x); }),
      on([this](const report_feeder&) { return feeder_report{std::move(options_.trace)}; }),
      on([this](const go_on_dealing& x) { go_on(x); }),
      on([this](const watch_holds&) {
        who_watches_ = sender();
        if (holding_) send(who_watches_, step_reached{*holding_});
        tell_if_all_at_switch();
      }),
  }
      .or_else(checkpoints());
}

caf::behavior feeder::exhausted() {
  return caf::message_handler{
      on([this](const next_batch&) { send(sender(), data_exhausted{}); }),
      on([this](const give_up&) { self_->quit(); }),
      on([](const stop_dealing&) {}),
      on([this](const end_recording& x) { end(x); }),
      on([this](const report_feeder&) { return feeder_report{std::move(options_.trace)}; }),
      on([this](const worker_left& x) {
        cut_.leave(x.worker, x.incarnation);
        report_cut();
      }),
      on([this](const share_lost& x) {
        who_loses_ = sender();
        cut_.lose(x.worker, x.incarnation);
        report_cut();
      }),
      on([this](const deal_again& x) {
        take_untrained(x);
        report_cut();
      }),
      on([this](const count_undealt&) { return undealt_counted{dealer_.undealt()}; }),
      on([](const go_on_dealing&) {}),
      on([](const watch_holds&) {}),
  }
      .or_else(checkpoints());
}

caf::message_handler feeder::checkpoints() {
  return {
      on([this](const watch_checkpoints& x) {
        due_ = x;
        who_takes_them_ = sender();
        if (due_.every > 0) last_due_at_ = options_.time->now();
      }),
      on([this](const worker_marked& x) {
        cut_.mark(x);
        report_cut();
      }),
      on([this](const take_checkpoint& x) {
        cut_.begin(x.number, sender());
        report_cut();
      }),
  };
}

void feeder::report_cut() {
  auto part = cut_.finished(dealer_, replayed_ ? replayed_->switches_passed() : 0);
  if (!part) return;
  log_.mark(part->number, feeder_of_recording);
  send(cut_.collector(), std::move(*part));
}

void feeder::tell_if_checkpoint_due() {
  if (!who_takes_them_) return;
  const instant now = due_.every > 0 ? options_.time->now() : instant{0};
  const bool by_batches = due_.every_batches > 0 && dealt_ >= last_due_ + due_.every_batches;
  const bool by_time = due_.every > 0 && now - last_due_at_ >= instant{due_.every};
  if (!by_batches && !by_time) return;
  last_due_ = dealt_;
  last_due_at_ = now;
  send(who_takes_them_, checkpoint_due{});
}

/// A worker that the run has lost may still ask, if only its way to a parameter host is broken. It hears so
/// from there, and comes back. If it were told that no batch is left, it would end its work.
void feeder::on_next(const next_batch& x, asking who) {
  const feeder_cut::asker known = cut_.hear(x.worker, x.incarnation);
  if (known == feeder_cut::asker::lost) return;
  if (known == feeder_cut::asker::stranger) return send(who.device, data_exhausted{});
  if (known == feeder_cut::asker::newcomer) begin_incarnation(x);
  deal_or_hold(x.worker, std::move(who));
}

void feeder::begin_incarnation(const next_batch& x) {
  dealer_.join(x.worker.value);
  if (replayed_) replayed_->begin(x.worker, x.incarnation);
  note({x.worker, x.incarnation.value, recorded_deal::kind::begun});
}

void feeder::deal_or_hold(rank worker, asking who) {
  const bool at_switch = replayed_ && replayed_->holds(worker);
  if (holding_ || at_switch) {
    if (at_switch) {
      replayed_->wait(worker);
      send(who.device, switch_ahead{replayed_->step_before_switch(worker)});
    }
    hungry_[worker] = std::move(who);
    return tell_if_all_at_switch();
  }
  trace_wait(trace_kind::asker);
  const auto deal = deal_to(worker);
  if (!deal && cut_.has_lost_shares()) {
    hungry_[worker] = std::move(who);
    return;
  }
  if (!deal) return send(who.device, data_exhausted{});
  note({worker, deal->number});
  const std::uint64_t number = deal->number;
  send_batch(*deal, who);
  if (options_.trace)
    options_.trace->work({trace_kind::deal, instant{0}, options_.time->now(), worker.value, number});
  ++dealt_;
  cut_.deal(worker, number, who.has_samples);
  hold_if_reached();
  tell_if_checkpoint_due();
}

void feeder::send_batch(const deal& dealt, const asking& to) {
  if (to.has_samples)
    return send(to.device,
                dealt_samples{dealt.number, dealt.epoch, {dealt.samples.begin(), dealt.samples.end()}});
  const std::shared_ptr<batch> filled = batches_.take();
  fill_batch(*options_.samples, dealt.samples, *filled);
  filled->number = dealt.number;
  filled->epoch = dealt.epoch;
  send(to.device, dealt_batch{filled});
}

std::optional<deal> feeder::deal_to(rank worker) {
  if (!replayed_) return dealer_.next(worker.value);
  const std::optional<std::uint64_t> number = replayed_->next(worker);
  return number ? dealer_.batch(*number) : std::nullopt;
}

void feeder::on_lost(const share_lost& x) {
  who_loses_ = sender();
  if (cut_.lose(x.worker, x.incarnation)) end_share_of(x.worker);
}

void feeder::end_share_of(rank worker) {
  dealer_.leave(worker.value);
  hungry_.erase(worker);
  if (replayed_) replayed_->leave(worker);
  report_cut();
  tell_if_all_at_switch();
}

/// Returns how many there are.
std::size_t feeder::take_untrained(const deal_again& x) {
  const bool is_of_lost = who_loses_ && sender() == who_loses_; // its worker may have given it back before
  if (is_of_lost) send(who_loses_, cut_.account_of(x));
  const std::vector<std::uint64_t> numbers = cut_.untrained(x);
  dealer_.take_back(numbers);
  for (const std::uint64_t number : numbers) note({x.worker, number, recorded_deal::kind::returned});
  return numbers.size();
}

/// Batches that are to be dealt again do not count as dealt.
void feeder::take_back(const deal_again& x) {
  dealt_ -= std::min<std::uint64_t>(dealt_, take_untrained(x));
  report_cut();
  if (!holding_) feed_hungry();
}

/// Tells nothing before an actor watches.
void feeder::tell_if_all_at_switch() {
  if (!replayed_ || !who_watches_) return;
  if (const auto number = replayed_->reached_switch()) send(who_watches_, step_reached{*number});
}

void feeder::hold_if_reached() {
  if (options_.hold_at.empty() || dealt_ < options_.hold_at.front()) return;
  holding_ = options_.hold_at.front();
  options_.hold_at.pop_front();
  if (who_watches_) send(who_watches_, step_reached{*holding_});
}

void feeder::go_on(const go_on_dealing& x) {
  dealer_.deal_by(x.by_rank ? deal_mode::by_rank : deal_mode::on_demand);
  const std::optional<std::uint64_t> held_at =
      replayed_ ? std::optional(replayed_->switches_passed() + 1) : holding_;
  if (held_at != x.held_at) return;
  if (holding_) trace_wait(trace_kind::hold);
  if (replayed_) replayed_->pass_switch();
  holding_.reset();
  hold_if_reached();
  feed_hungry();
}

void feeder::end(const end_recording& x) {
  log_.flush();
  if (options_.recorder) send(options_.recorder, end_recording{x.what});
}

void feeder::stop() {
  if (holding_) trace_wait(trace_kind::hold);
  for (const auto& [worker, who] : hungry_) send(who.device, data_exhausted{});
  self_->become(exhausted());
}

} // namespace mailgrad
