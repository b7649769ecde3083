#include <mailgrad/actors/run/feeder_cut.hpp>

namespace mailgrad {

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

/// What an earlier incarnation was dealt, it has trained, or it was taken back.
void feeder_cut::begin_incarnation(of_worker& w, incarnation_number incarnation) {
  w.before += w.now.dealt;
  w.now = {};
  w.incarnation = incarnation;
  w.gone = w.lost = w.empty = false;
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

void feeder_cut::begin(std::uint64_t number, const caf::actor& collector) {
  if (number <= last_) return; // finished before
  number_ = number;
  collector_ = collector;
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

/// How many of the batches dealt last are not among the first `trained`.
std::ptrdiff_t feeder_cut::untrained_of(const share& s, std::uint64_t trained) {
  return static_cast<std::ptrdiff_t>(
      std::min<std::uint64_t>(s.dealt - std::min(s.dealt, trained), s.last.size()));
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

bool feeder_cut::lose(rank worker, incarnation_number incarnation) {
  if (!leave(worker, incarnation)) return false;
  workers_[worker.value].lost = true;
  lost_.push_back({worker, incarnation, std::exchange(workers_[worker.value].now, {})});
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
