#include <mailgrad/engine/account/report_of_run.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

namespace mailgrad {

void reported_losses::take(rank worker, std::uint64_t steps, std::uint64_t samples, double loss_sum) {
  if (worker.value >= all_.size() || steps == 0 || samples == 0) return;
  told& of = all_[worker.value];
  of.done.steps += steps;
  of.done.samples += samples;
  of.last = static_cast<float>(loss_sum / static_cast<double>(samples));
  const std::uint64_t of_a_step = std::max<std::uint64_t>(1, samples / steps);
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(steps, loss_tail::steps); ++i)
    of.tail.add(of.last, of_a_step);
}

void reported_losses::give(worker_report& known, const worker_report& copy) const {
  const told& of = all_[known.worker.value];
  known.add(of.sums);
  known.raise_to(copy);
  if (of.tail.samples() == 0) return;
  known.last_losses = of.tail;
  known.loss_bits = std::bit_cast<std::uint32_t>(of.last);
}

namespace {

constexpr std::size_t longest_text = 64;

/// As the other process has written it, without what a terminal would obey.
std::string printable(const std::string& told) {
  std::string text = told.substr(0, longest_text);
  std::erase_if(text, [](char c) { return c < ' ' || c > '~'; });
  return text;
}

/// Incarnations are counted from 1 for people.
std::string track_name_of(const timeline_teller& who, const std::string& device) {
  if (who.shard) return fmt::format("shard {}", who.shard->value);
  const std::string name = fmt::format("worker {} on {}", who.worker.value, device);
  return who.incarnation.value == 0 ? name
                                    : fmt::format("{}, incarnation {}", name, who.incarnation.value + 1);
}

/// The words of a piece belong to the track from now on. The first is none.
std::vector<std::string_view> owned(const std::vector<std::string>& words, trace_track& by) {
  std::vector<std::string_view> all{{}};
  for (const std::string& w : words) all.push_back(by.own(w));
  return all;
}

std::string gradients(std::uint64_t count) {
  return fmt::format("{} {}", count, count == 1 ? "gradient" : "gradients");
}

std::string name_of(const shard_report& s) { return "shard " + std::to_string(s.shard.value); }
std::string name_of(std::size_t worker) { return "worker " + std::to_string(worker); }

/// The shard's account of a worker; an empty one if the shard has none.
const worker_account& account_of(const shard_report& s, std::size_t worker) {
  static const worker_account none;
  return worker < s.workers.size() ? s.workers[worker] : none;
}

/// The counts of both ends of the exchange between one worker and one shard.
struct exchange_ends {
  std::uint64_t sent = 0;    ///< counted by the worker; if it is lost, by the shard that got most of it
  std::uint64_t taken = 0;   ///< counted by the shard
  bool both_known = false;   ///< worker and shard have both reported
  bool may_be_short = false; ///< a lost worker or shard explains why `taken` is less than `sent`
};

class auditor {
public:
  auditor(const run_outcome& outcome, std::optional<std::uint64_t> written)
      : outcome_(outcome), written_(written), running_(outcome.how == run_outcome::ending::running),
        a_shard_is_lost_(std::ranges::any_of(outcome.shards, is_lost)),
        a_worker_is_lost_(std::ranges::find(outcome.lost, true) != outcome.lost.end()) {}

  audited_ledger result() {
    if (outcome_.shards.empty()) {
      result_.ledger = workers_ledger();
    } else {
      std::vector<shard_ledger> all, left;
      for (const shard_report& s : outcome_.shards) {
        all.push_back({s.shard.value, ledger_of(s)});
        if (!is_lost(s)) left.push_back(all.back());
      }
      const shard_ledger& worst = worst_of(all);
      result_.ledger = worst.counts;
      const bool of_lost = is_lost(outcome_.shards[static_cast<std::size_t>(&worst - all.data())]);
      if (!running_ && !left.empty() && of_lost) result_.kept = worst_of(left);
    }
    compare_with_block();
    return std::move(result_);
  }

private:
  /// The one that does not balance, or else the one that lost most.
  static const shard_ledger& worst_of(const std::vector<shard_ledger>& some) {
    return *std::ranges::max_element(
        some, {}, [](const shard_ledger& l) { return std::pair(!l.counts.balances(), l.counts.lost); });
  }

  /// How many gradients a lost worker produced, as far as any shard knows of its last incarnation.
  std::uint64_t heard_of(std::size_t worker) const {
    std::uint64_t most = 0;
    for (const shard_report& s : outcome_.shards) {
      const worker_account& account = account_of(s, worker);
      const bool keeps_steps = account.last_step.value > 0; // a user's own parameter actor may not
      most = std::max(most, keeps_steps ? account.last_step.value : account.ledger.produced);
    }
    return most;
  }

  std::uint64_t sent_by(std::size_t worker) const {
    const worker_report& w = outcome_.workers[worker];
    const std::uint64_t told = w.produced - w.applied - w.not_finite;
    return outcome_.lost[worker] && told == 0 ? heard_of(worker) : told;
  }

  /// While the run goes on, the copy of a shard may be newer than that of the worker.
  std::uint64_t produced_by(std::size_t worker) const {
    const worker_report& w = outcome_.workers[worker];
    if (running_) return std::max(w.produced, heard_of(worker) + w.applied + w.not_finite);
    return outcome_.lost[worker] && w.produced == 0 ? heard_of(worker) : w.produced;
  }

  /// The part of the ledger that only workers know: what they produced, applied themselves or dropped.
  gradient_ledger workers_ledger() const {
    gradient_ledger l;
    for (std::size_t r = 0; r < outcome_.workers.size(); ++r) {
      const worker_report& w = outcome_.workers[r];
      l.produced += produced_by(r);
      l.applied += w.applied;
      if (w.not_finite > 0) l.discarded["not finite"] += w.not_finite;
    }
    return l;
  }

  exchange_ends ends_of(const shard_report& s, std::size_t worker) const {
    exchange_ends e;
    e.sent = sent_by(worker);
    e.taken = account_of(s, worker).ledger.produced;
    e.both_known = !is_lost(s) && !outcome_.lost[worker];
    e.may_be_short = a_shard_is_lost_ || outcome_.lost[worker];
    return e;
  }

  gradient_ledger ledger_of(const shard_report& s) {
    gradient_ledger l = workers_ledger();
    for (std::size_t r = 0; r < outcome_.workers.size(); ++r) {
      const exchange_ends e = ends_of(s, r);
      if (!running_ && e.may_be_short && e.sent > e.taken) l.lost += e.sent - e.taken;
      if (is_lost(s)) continue;
      const worker_account& account = account_of(s, r);
      l.applied += account.ledger.applied;
      l.merged += account.ledger.merged;
      for (const auto& [reason, count] : account.ledger.discarded) l.discarded[reason] += count;
      l.lost += account.ledger.lost;
      compare(s, r, e);
    }
    return l;
  }

  void compare(const shard_report& s, std::size_t worker, const exchange_ends& e) {
    if (running_) return; // the copies are of different moments
    const worker_account& account = account_of(s, worker);
    if (e.taken > e.sent || (e.taken < e.sent && !e.may_be_short))
      contradict(fmt::format("{} took {} of {}, which {} {}", name_of(s), gradients(e.taken), name_of(worker),
                             e.both_known ? "sent" : "was heard to send", e.sent));
    if (!account.ledger.balances())
      contradict(fmt::format("{} took {} of {}, and accounts for {}", name_of(s), gradients(e.taken),
                             name_of(worker), account.ledger.accounted_for()));
    if (account.unjudged > 0 && outcome_.how == run_outcome::ending::completed && !a_shard_is_lost_ &&
        !a_worker_is_lost_)
      contradict(
          fmt::format("{} never judged {} of {}", name_of(s), gradients(account.unjudged), name_of(worker)));
  }

  /// The block counts the updates of all workers together.
  void compare_with_block() {
    if (!written_ || running_) return;
    std::uint64_t told = 0;
    for (const worker_report& w : outcome_.workers) told += w.applied;
    gradient_ledger& l = result_.ledger;
    l.applied = l.applied - told + *written_; // the block's own count takes the place of the workers'
    if (*written_ > told && a_worker_is_lost_)
      l.produced += *written_ - told;
    else if (*written_ != told)
      contradict(fmt::format("the shared block counts {} updates, and its workers made {}", *written_, told));
  }

  void contradict(std::string line) { result_.contradictions.push_back(std::move(line)); }

  const run_outcome& outcome_;
  std::optional<std::uint64_t> written_;
  bool running_;
  bool a_shard_is_lost_;
  bool a_worker_is_lost_;
  audited_ledger result_;
};

std::string format_ending(run_outcome::ending how) {
  constexpr std::array names{"completed", "stopped", "diverged", "failed", "running"};
  static_assert(names.size() == static_cast<std::size_t>(run_outcome::ending::running) + 1);
  return names[static_cast<std::size_t>(how)];
}

/// A run that nobody was left to train to its end has failed, although all that was trained is whole.
run_outcome::ending ending_of(const run_outcome& outcome) {
  const bool is_short = outcome.how == run_outcome::ending::completed && outcome.untrained > 0;
  return is_short ? run_outcome::ending::failed : outcome.how;
}

/// The ranks of which something is known: those that the run began with, and who came later.
std::uint32_t ranks_in(const run_outcome& outcome, const std::vector<exchange_figures>& exchanges) {
  auto ranks = static_cast<std::uint32_t>(outcome.workers.size());
  for (const exchange_figures& x : exchanges) ranks = std::max(ranks, x.worker + 1);
  return ranks;
}

/// Each sample counts once, so that the early loss of a worker that got little to do counts little.
std::optional<double> mean_loss(const std::vector<worker_report>& workers) {
  double sum = 0;
  std::uint64_t samples = 0;
  for (const worker_report& w : workers) {
    sum += w.last_losses.sum();
    samples += w.last_losses.samples();
  }
  if (samples == 0) return std::nullopt;
  return sum / static_cast<double>(samples);
}

std::optional<double> least_last_loss(const std::vector<worker_report>& workers) {
  std::optional<double> least;
  for (const worker_report& w : workers) {
    if (w.last_losses.samples() == 0) continue; // it has none
    const double last = std::bit_cast<float>(w.loss_bits);
    if (!least || last < *least) least = last;
  }
  return least;
}

/// Exchanges without a shard are those of hogwild's workers, which write into the shared block.
std::vector<exchange_figures> exchanges_of(const run_outcome& outcome) {
  const bool in_block = outcome.shards.empty() && outcome.how != run_outcome::ending::running;
  std::vector<exchange_figures> all;
  for (const shard_report& s : outcome.shards)
    for (std::uint32_t r = 0; r < s.workers.size(); ++r)
      all.push_back({s.shard.value, r, s.workers[r].gaps, s.workers[r].times, s.workers[r].weight_gap});
  for (const worker_report& w : outcome.workers)
    if (in_block || !w.gaps.empty()) all.push_back({{}, w.worker.value, w.gaps, w.times, {}});
  return all;
}

using gradient_number = std::pair<incarnation_number, step_number>;

using known_cosines = std::map<gradient_number, double>;

std::vector<known_cosines> cosines_of(const run_outcome& outcome, std::uint32_t ranks) {
  std::vector<known_cosines> all(ranks);
  for (const worker_report& w : outcome.workers)
    for (const cosine_sample& x : w.cosines.all())
      if (w.worker.value < ranks)
        all[w.worker.value].emplace(gradient_number(x.incarnation, x.step), x.cosine);
  return all;
}

/// What shards and workers know of sampled gradients. Of very many, evenly spaced ones stay.
std::vector<sampled_figures> sampled_of(const run_outcome& outcome, std::uint32_t ranks) {
  std::vector<std::pair<gradient_number, sampled_figures>> all;
  const std::vector<known_cosines> known_of = cosines_of(outcome, ranks);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const known_cosines& cosines = known_of[r];
    const std::size_t begin = all.size();
    for (const shard_report& s : outcome.shards) {
      if (r >= s.workers.size()) continue;
      for (const gap_sample& x : s.workers[r].sampled_gaps.all()) {
        const gradient_number number(x.incarnation, x.step);
        const auto known = cosines.find(number);
        all.push_back({number, {s.shard.value, r, x.step.value, x.lag, x.gap, {}}});
        if (known != cosines.end()) all.back().second.cosine = known->second;
      }
    }
    std::ranges::stable_sort(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end(), {},
                             [](const auto& x) { return x.first; });
  }
  std::vector<sampled_figures> kept;
  const std::size_t size = all.size(), most = std::min(size, training_report::most_sampled);
  for (std::size_t i = 0; i < most; ++i) kept.push_back(all[i * size / most].second);
  return kept;
}

/// Every shard is told how long a gradient took to compute, so only the shard with the most gradients counts.
/// The gradients that a worker wrote into a shared block are added to these.
time_split times_of(const std::vector<exchange_figures>& exchanges, std::size_t workers) {
  time_split all;
  std::vector<duration_stat> sent(workers);
  std::vector<duration_stat> written(workers);
  for (const exchange_figures& x : exchanges) {
    all.merge(x.times);
    duration_stat& known = x.shard ? sent[x.worker] : written[x.worker];
    if (x.times.compute.count() > known.count()) known = x.times.compute;
  }
  all.compute = {};
  for (const auto* tallies : {&sent, &written})
    for (const duration_stat& t : *tallies) all.compute.merge(t);
  return all;
}

staleness_histogram staleness_in(const run_outcome& outcome) {
  staleness_histogram all;
  for (const worker_report& w : outcome.workers) all.merge(w.gaps);
  for (const shard_report& s : outcome.shards)
    for (const worker_account& account : s.workers) all.merge(account.gaps);
  return all;
}

/// A run whose ledger does not balance has failed, because it may not have followed its policy.
void tell_contradictions(const std::vector<std::string>& lines, training_report& r) {
  if (lines.empty()) return;
  if (r.ended != format_ending(run_outcome::ending::diverged))
    r.ended = format_ending(run_outcome::ending::failed);
  r.add_reason("the ledger does not balance: " + lines.front());
  if (lines.size() > 1) r.why += fmt::format(", and {} more like it", lines.size() - 1);
}

/// A lost shard takes its weights and its counts with it. Workers still know how many gradients it was sent.
void tell_lost_shards(const run_outcome& outcome, training_report& r) {
  if (outcome.how == run_outcome::ending::running) return;
  for (std::uint32_t s = 0; s < outcome.shards.size(); ++s)
    if (is_lost(outcome.shards[s])) r.lost_shards.push_back(s);
  if (r.lost_shards.empty()) return;
  const bool one = r.lost_shards.size() == 1;
  r.add_reason(fmt::format("lost with shard{} {}: {} weights, and what {} had made of {} gradient{}",
                           one ? "" : "s", fmt::join(r.lost_shards, ", "), one ? "its" : "their",
                           one ? "it" : "they", r.ledger.produced, r.ledger.produced == 1 ? "" : "s"));
}

/// Adds what a worker of another process has told, as each of its incarnations, or a shard. False: nothing.
bool add_told(run_trace& t, const run_outcome& outcome, const timeline_teller& by) {
  bool any = false;
  for (const reported_timeline& told : outcome.told) {
    if (told.teller.shard != by.shard || told.teller.worker != by.worker) continue;
    any = true;
    const std::vector<trace_event>& events = told.track->events();
    if (events.empty() && !told.whole) {
      t.lost.push_back(told.track->name());
      continue;
    }
    t.tracks.push_back(told.track);
    t.clocks.push_back({told.track->name(), told.clock, {}});
    if (!told.whole) t.clocks.back().lost_after = events.back().end;
  }
  return any;
}

} // namespace

/// A piece without events serves the clocks, once for each incarnation.
void reported_timelines::take(const timeline_teller& by, const trace_piece& x, instant now) {
  if (room_ == 0 || !x.makes_sense()) return;
  told& of = all_[by];
  of.device = printable(x.device);
  of.left_out = x.left_out;
  if (x.answered) of.clock.answer(instant{*x.answered});
  if (x.events.empty() && !of.pieces.empty()) return;
  std::size_t& all_kept = kept_[{by.shard, by.worker, {}}];
  const std::size_t kept = std::min(room_ - all_kept, x.events.size());
  of.dropped += x.events.size() - kept;
  if (kept == 0 && !of.pieces.empty()) return;
  all_kept += kept;
  of.clock.add(instant{x.sent}, now);
  std::vector<std::string> words;
  for (const std::string& w : x.words) words.push_back(printable(w));
  of.pieces.push_back({instant{x.sent},
                       now,
                       {x.events.begin(), x.events.begin() + static_cast<std::ptrdiff_t>(kept)},
                       std::move(words)});
}

reported_timeline reported_timelines::placed(const timeline_teller& who, const told& what) const {
  std::size_t events = 0;
  for (const piece& p : what.pieces) events += p.events.size();
  const auto track = std::make_shared<trace_track>(track_name_of(who, what.device), events, started_);
  track->leave_out(what.left_out + what.dropped);
  reported_timeline made{who, track, {instant{0}, instant{0}}, what.whole};
  const std::vector<clock_offset> offsets = what.clock.offsets();
  for (std::size_t i = 0; i < what.pieces.size(); ++i) {
    const piece& p = what.pieces[i];
    const clock_offset& by = offsets[i];
    const std::vector<std::string_view> words = owned(p.words, *track);
    for (const reported_event& e : p.events) {
      const instant begin = std::min(p.sent - instant{e.ago} + by.value, p.came);
      const trace_event there{e.what,    begin,        std::min(begin + instant{e.span}, p.came),
                              e.peer,    e.step,       e.version_read,
                              e.version, words[e.word]};
      if (is_moment(e.what))
        track->moment(there);
      else
        track->work(there);
    }
    made.clock.value = by.value;
    if (!by.uncertainty)
      made.clock.uncertainty.reset();
    else if (made.clock.uncertainty)
      made.clock.uncertainty = std::max(*made.clock.uncertainty, *by.uncertainty);
  }
  return made;
}

std::vector<reported_timeline> reported_timelines::placed() const {
  std::vector<reported_timeline> all;
  for (const auto& [who, what] : all_) all.push_back(placed(who, what));
  return all;
}

bool is_lost(const shard_report& s) { return s.workers.empty() && !s.values; }

audited_ledger audit(const run_outcome& outcome, std::optional<std::uint64_t> written) {
  return auditor(outcome, written).result();
}

training_report report_of(const run_outcome& outcome, std::optional<std::uint64_t> written) {
  training_report r;
  r.ended = format_ending(ending_of(outcome));
  r.enough = outcome.enough;
  r.why = outcome.why;
  r.switches = outcome.switches;
  audited_ledger audited = audit(outcome, written);
  r.ledger = std::move(audited.ledger);
  r.kept_ledger = std::move(audited.kept);
  tell_lost_shards(outcome, r);
  tell_contradictions(audited.contradictions, r);
  r.steps = 0;
  for (const worker_report& w : outcome.workers) r.steps += w.steps;
  r.steps = std::max(r.steps, r.ledger.produced); // shards know the steps of a lost worker
  r.updates = written.value_or(0);
  for (const shard_report& s : outcome.shards) r.updates = std::max(r.updates, s.version.value);
  r.final_loss = mean_loss(outcome.workers);
  r.last_loss = least_last_loss(outcome.workers);
  r.nonsense_above = outcome.nonsense_above;
  for (const worker_report& w : outcome.workers) {
    r.samples += w.samples;
    const wait_seconds waits{in_seconds(instant{w.barrier_wait}), in_seconds(instant{w.bound_wait}),
                             in_seconds(instant{w.feeder_wait})};
    r.waits.barrier += waits.barrier;
    r.waits.bound += waits.bound;
    r.waits.feeder += waits.feeder;
    r.worker_waits.push_back(waits);
    const std::uint64_t lost =
        w.worker.value < outcome.lost_batches.size() ? outcome.lost_batches[w.worker.value] : 0;
    r.batches.push_back({w.local_batches, w.steps - std::min(w.steps, w.local_batches), lost, w.local_bytes});
    r.gradient_cosine.merge(w.gradient_cosine);
    for (const stage_report& p : w.stages)
      r.stages.push_back({w.worker.value, p.device, in_seconds(instant{p.busy})});
  }
  r.staleness = staleness_in(outcome);
  for (const shard_report& s : outcome.shards)
    for (const worker_account& account : s.workers) r.discarded_staleness.merge(account.discarded_gaps);
  r.exchanges = exchanges_of(outcome);
  for (const exchange_figures& x : r.exchanges) r.weight_gap.merge(x.weight_gap);
  r.workers = ranks_in(outcome, r.exchanges);
  r.sampled = sampled_of(outcome, r.workers);
  r.times = times_of(r.exchanges, r.workers);
  return r;
}

run_outcome nothing_told(std::uint32_t workers, std::uint32_t shards) {
  run_outcome o;
  o.how = run_outcome::ending::running;
  o.workers.resize(workers);
  o.lost.resize(workers);
  o.unreported.assign(workers, true);
  for (std::uint32_t r = 0; r < workers; ++r) o.workers[r].worker = {r};
  for (std::uint32_t s = 0; s < shards; ++s) o.late.push_back({s});
  return o;
}

training_report report_so_far(const run_outcome& books, const training_progress& told,
                              std::optional<std::uint64_t> written) {
  training_report r = report_of(books, written);
  r.late = books.late;
  r.steps = told.steps;
  r.samples = told.samples;
  std::uint64_t steps = 0, samples = 0; // of one moment, as those that were told; shards are ahead of both
  for (const worker_report& w : books.workers) {
    steps += w.steps;
    samples += w.samples;
  }
  if (steps > told.steps) {
    r.steps = steps;
    r.samples = samples;
  }
  if (std::ranges::find(books.unreported, true) != books.unreported.end()) {
    r.worker_waits.clear();
    r.batches.clear();
  }
  return r;
}

training_progress final_progress(const run_outcome& outcome, instant elapsed) {
  training_progress p;
  for (const worker_report& w : outcome.workers) {
    p.steps += w.steps;
    p.samples += w.samples;
  }
  p.loss = mean_loss(outcome.workers).value_or(0);
  p.staleness_mean = staleness_in(outcome).mean();
  p.elapsed = elapsed;
  return p;
}

run_trace trace_of(const run_outcome& outcome, instant started, instant ended) {
  run_trace t{started, ended, format_ending(outcome.how)};
  // A run that is resumed also reports the switches of the earlier process, whose clock was another one.
  std::ranges::copy_if(outcome.switches, std::back_inserter(t.switches),
                       [&](const policy_switch& s) { return s.begun > instant{0} && s.begun >= started; });
  t.checkpoints = outcome.checkpoint_timeline;
  const auto add = [&t](const auto& track, const std::string& name) {
    if (track)
      t.tracks.push_back(track);
    else
      t.lost.push_back(name);
  };
  for (const worker_report& w : outcome.workers) {
    const std::string name = "worker " + std::to_string(w.worker.value);
    const bool is_elsewhere = add_told(t, outcome, timeline_teller::of(w.worker, {}));
    if (!is_elsewhere) add(w.trace, name);
    if (w.copies) t.tracks.push_back(w.copies);
    for (const stage_report& p : w.stages) {
      const std::string stage = fmt::format("{}, stage on {}", name, p.device);
      is_elsewhere ? t.silent.push_back(stage) : add(p.trace, stage); // stages of other processes tell none
    }
  }
  for (std::size_t i = 0; i < outcome.shards.size(); ++i) {
    const std::string name = "shard " + std::to_string(i);
    if (add_told(t, outcome, timeline_teller::of(shard_index{static_cast<std::uint32_t>(i)}))) continue;
    if (outcome.shards[i].trace || outcome.shards[i].workers.empty())
      add(outcome.shards[i].trace, name);
    else
      t.silent.push_back(name); // it has reported
  }
  if (outcome.feeder_trace || outcome.feeder_lost) add(outcome.feeder_trace, "feeder");
  if (!t.tracks.empty()) return t;
  t.lost.clear(); // nothing was recorded
  t.silent.clear();
  return t;
}

std::optional<std::vector<float>> joined_weights(const run_outcome& outcome, const parameter_layout& layout) {
  std::vector<float> joined(layout.size());
  for (const shard_report& s : outcome.shards) {
    if (!s.values) return std::nullopt; // the shard is lost
    const shard_range range = layout.shard(s.shard.value);
    if (s.values.on_host().size() != range.size()) return std::nullopt;
    std::ranges::copy(s.values.on_host(), std::span(joined).subspan(range.begin).begin());
  }
  return joined;
}

std::optional<double> mean_factor(const cure& c, const staleness_histogram& gaps) {
  if (gaps.empty() || !c.has_factor()) return std::nullopt;
  double sum = 0;
  for (const auto& [gap, count] : gaps.buckets()) sum += c.factor(gap) * static_cast<double>(count);
  return sum / static_cast<double>(gaps.total());
}

std::string in_words(const wait_reason& w) {
  return fmt::format("{}, for {:.1f} s", w.what, in_seconds(instant{w.span}));
}

} // namespace mailgrad
