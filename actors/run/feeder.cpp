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
      on([this](const stop_dealing&) {
        if (holding_) trace_wait(trace_kind::hold);
        for (const auto& [worker, who] : hungry_) send(who.device, data_exhausted{});
        self_->become(exhausted());
      }),
      on([this](const worker_left& x) {
        if (cut_.leave(x.worker, x.incarnation)) end_share_of(x.worker);
      }),
      on([this](const share_lost& x) {
        who_loses_ = sender();
        if (cut_.lose(x.worker, x.incarnation)) end_share_of(x.worker);
      }),
      // Batches that are to be dealt again do not count as dealt.
      on([this](const deal_again& x) {
        dealt_ -= std::min<std::uint64_t>(dealt_, take_untrained(x));
        report_cut();
        if (!holding_) feed_hungry();
      }),
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

feeder_cut::feeder_cut(options o) : under_way_(o.under_way), workers_(o.slots) {
  o.trained.resize(o.slots);
  for (std::size_t r = 0; r < workers_.size(); ++r) {
    workers_[r].before = o.trained[r];
    workers_[r].gone = workers_[r].empty = r >= o.workers;
  }
}

feeder_cut::asker feeder_cut::hear(rank worker, incarnation_number incarnation) {
  if (worker.value >= workers_.size()) return asker::stranger;
  of_worker& w = workers_[worker.value];
  if (incarnation == w.incarnation && w.lost) return asker::lost;
  if (incarnation < w.incarnation || (incarnation == w.incarnation && w.gone && !w.empty))
    return asker::stranger;
  if (incarnation == w.incarnation && !w.empty) return asker::known;
  begin_incarnation(w, incarnation);
  return asker::newcomer;
}

void feeder_cut::deal(rank worker, std::uint64_t number, bool own) {
  of_worker& w = workers_[worker.value];
  w.now.own = own;
  ++w.now.dealt;
  std::vector<std::uint64_t>& last = w.now.last;
  if (last.size() == under_way_) last.erase(last.begin());
  last.push_back(number);
  if (w.mark) w.again.push_back(number);
}

void feeder_cut::mark(const worker_marked& x) {
  if (x.worker.value >= workers_.size()) return;
  begin(x.number, x.collector);
  if (x.number != number_) return;
  of_worker& w = workers_[x.worker.value];
  w.mark = w.before + x.trained;
  w.samples = x.samples;
  const std::vector<std::uint64_t>& last = w.now.last;
  w.again.assign(last.end() - untrained_of(w.now, x.trained), last.end());
}

bool feeder_cut::leave(rank worker, incarnation_number incarnation) {
  if (worker.value >= workers_.size()) return false;
  of_worker& w = workers_[worker.value];
  if (incarnation < w.incarnation || (incarnation == w.incarnation && w.gone && !w.empty)) return false;
  if (incarnation > w.incarnation || w.empty)
    begin_incarnation(w, incarnation); // it has not asked for a batch
  w.gone = true;
  return true;
}

std::vector<feeder_cut::lost_share>::const_iterator
feeder_cut::find_lost(rank worker, incarnation_number incarnation) const {
  return std::ranges::find_if(
      lost_, [&](const lost_share& s) { return s.worker == worker && s.incarnation == incarnation; });
}

share_ended feeder_cut::account_of(const deal_again& x) const {
  const auto lost = find_lost(x.worker, x.incarnation);
  if (lost == lost_.end()) return {x.worker, x.incarnation};
  const share& of = lost->what;
  const auto untrained = static_cast<std::uint64_t>(untrained_of(of, x.trained));
  return {x.worker, x.incarnation, of.own ? of.dealt - untrained : 0, of.own ? 0 : untrained};
}

std::vector<std::uint64_t> feeder_cut::untrained(const deal_again& x) {
  if (x.worker.value >= workers_.size()) return {};
  of_worker& w = workers_[x.worker.value];
  const auto lost = find_lost(x.worker, x.incarnation);
  if (lost == lost_.end())
    return w.incarnation == x.incarnation ? take_untrained(w, w.now, x.trained)
                                          : std::vector<std::uint64_t>{};
  share of = lost->what;
  lost_.erase(lost);
  const std::vector<std::uint64_t> numbers = take_untrained(w, of, x.trained);
  w.before += of.dealt;
  return numbers;
}

/// The checkpoint under way leaves these batches to who is dealt them next.
std::vector<std::uint64_t> feeder_cut::take_untrained(of_worker& w, share& of, std::uint64_t trained) {
  const auto first = of.last.end() - untrained_of(of, trained);
  const std::vector<std::uint64_t> numbers(first, of.last.end());
  of.last.erase(first, of.last.end());
  of.dealt -= numbers.size();
  std::erase_if(w.again, [&](std::uint64_t n) { return std::ranges::find(numbers, n) != numbers.end(); });
  return numbers;
}

std::optional<checkpoint_part> feeder_cut::finished(const dealer& of, std::uint64_t switches) {
  if (number_ == 0 || has_lost_shares() ||
      !std::ranges::all_of(workers_, [](const of_worker& w) { return w.mark || w.gone; }))
    return std::nullopt;
  feeder_position here;
  std::vector<std::uint64_t> again;
  std::vector<std::uint64_t> samples;
  for (of_worker& w : workers_) {
    here.trained.push_back(w.mark.value_or(w.before + w.now.dealt));
    samples.push_back(w.samples);
    again.insert(again.end(), w.again.begin(), w.again.end());
    w.mark.reset();
    w.again.clear();
  }
  here.batches = of.position(std::move(again));
  here.switches = switches;
  const auto fields = std::make_shared<saved_fields>();
  fields->field("feeder", here);
  fields->field(samples_at_markers, samples);
  last_ = number_;
  return checkpoint_part{std::exchange(number_, 0), "feeder", fields};
}

} // namespace mailgrad
