#include <mailgrad/actors/run_books.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

namespace mailgrad {

namespace {

std::string ending_in_words(run_outcome::ending how) {
  switch (how) {
  case run_outcome::ending::completed:
    return "completed";
  case run_outcome::ending::stopped:
    return "stopped";
  case run_outcome::ending::diverged:
    return "diverged";
  case run_outcome::ending::failed:
    return "failed";
  }
  return "unknown";
}

/// What a lost worker had produced, as far as any shard heard of it.
std::uint64_t heard_of(const run_outcome& outcome, std::size_t worker) {
  std::uint64_t most = 0;
  for (const shard_report& s : outcome.shards)
    if (worker < s.workers.size()) most = std::max(most, s.workers[worker].last_step);
  return most;
}

/// The part of the ledger that the workers know: what they produced, wrote themselves and dropped.
gradient_ledger workers_ledger(const run_outcome& outcome) {
  gradient_ledger l;
  for (std::size_t r = 0; r < outcome.workers.size(); ++r) {
    const worker_report& w = outcome.workers[r];
    l.produced += outcome.lost[r] ? heard_of(outcome, r) : w.produced;
    l.applied += w.applied;
    if (w.not_finite > 0) l.discarded["not finite"] += w.not_finite;
  }
  return l;
}

/// In hogwild: a worker that died says nothing, but the block has counted its updates.
void add_unreported(gradient_ledger& l, const run_outcome& outcome, std::optional<std::uint64_t> written) {
  if (!written) return;
  std::uint64_t reported = 0;
  for (const worker_report& w : outcome.workers) reported += w.applied;
  l.produced += *written - reported;
  l.applied += *written - reported;
}

gradient_ledger hogwild_ledger(const run_outcome& outcome, std::optional<std::uint64_t> written) {
  gradient_ledger l = workers_ledger(outcome);
  add_unreported(l, outcome, written);
  return l;
}

/// What no shard ever took is lost: with its worker, or with a shard whose books are gone.
gradient_ledger ledger_of(const run_outcome& outcome, const shard_report& shard) {
  gradient_ledger l = workers_ledger(outcome);
  const std::uint64_t pushed = l.produced - l.applied - l.discarded_in_all();
  std::uint64_t taken_in_all = 0;
  for (std::size_t r = 0; r < shard.workers.size(); ++r) {
    const gradient_ledger& taken = shard.workers[r].ledger;
    l.applied += taken.applied;
    l.merged += taken.merged;
    for (const auto& [reason, count] : taken.discarded) l.discarded[reason] += count;
    l.lost += taken.lost;
    taken_in_all += taken.produced;
  }
  l.lost += pushed - taken_in_all;
  return l;
}

gradient_ledger ledger_of(const run_outcome& outcome, std::optional<std::uint64_t> written) {
  if (outcome.shards.empty()) return hogwild_ledger(outcome, written);
  gradient_ledger worst = ledger_of(outcome, outcome.shards.front());
  for (const shard_report& s : outcome.shards)
    if (gradient_ledger l = ledger_of(outcome, s); l.lost > worst.lost) worst = std::move(l);
  add_unreported(worst, outcome, written);
  return worst;
}

std::optional<double> mean_loss(const std::vector<worker_report>& workers) {
  double sum = 0;
  int known = 0;
  for (const worker_report& w : workers) {
    const float loss = std::bit_cast<float>(w.loss_bits);
    if (w.steps == 0 || std::isnan(loss)) continue;
    sum += static_cast<double>(loss);
    ++known;
  }
  if (known == 0) return std::nullopt;
  return sum / known;
}

std::vector<exchange_figures> exchanges_of(const run_outcome& outcome) {
  std::vector<exchange_figures> all;
  for (const shard_report& s : outcome.shards)
    for (std::uint32_t r = 0; r < s.workers.size(); ++r)
      all.push_back({s.shard, r, s.workers[r].gaps, s.workers[r].times, s.workers[r].weight_gap});
  if (outcome.shards.empty())
    for (const worker_report& w : outcome.workers) all.push_back({{}, w.worker.value, w.gaps, w.times, {}});
  return all;
}

/// Every shard is told how long a gradient took to compute; whoever has heard of most counts.
time_split times_of(const std::vector<exchange_figures>& exchanges, std::size_t workers) {
  time_split all;
  std::vector<span_tally> computed(workers);
  for (const exchange_figures& x : exchanges) {
    all.merge(x.times);
    if (x.times.compute.count() > computed[x.worker].count()) computed[x.worker] = x.times.compute;
  }
  all.compute = {};
  for (const span_tally& t : computed) all.compute.merge(t);
  return all;
}

} // namespace

training_report report_of(const run_outcome& outcome, std::optional<std::uint64_t> written) {
  training_report r;
  r.ended = ending_in_words(outcome.how);
  r.why = outcome.why;
  r.switches = outcome.switches;
  r.ledger = ledger_of(outcome, written);
  r.steps = 0;
  for (const worker_report& w : outcome.workers) r.steps += w.steps;
  r.steps = std::max(r.steps, r.ledger.produced); // a lost worker's are known from the shards
  r.updates = written.value_or(0);
  for (const shard_report& s : outcome.shards) r.updates = std::max(r.updates, s.version);
  r.final_loss = mean_loss(outcome.workers);
  for (const worker_report& w : outcome.workers) {
    r.samples += w.samples;
    r.waits.barrier += in_seconds(instant{w.barrier_wait});
    r.waits.bound += in_seconds(instant{w.bound_wait});
    r.waits.feeder += in_seconds(instant{w.feeder_wait});
    r.staleness.merge(w.gaps);
    r.gradient_cosine.merge(w.gradient_cosine);
    for (const piece_report& p : w.pieces)
      r.pieces.push_back({w.worker.value, p.device, in_seconds(instant{p.busy})});
  }
  for (const shard_report& s : outcome.shards)
    for (const worker_account& account : s.workers) {
      r.staleness.merge(account.gaps);
      r.discarded_staleness.merge(account.discarded_gaps);
    }
  r.exchanges = exchanges_of(outcome);
  for (const exchange_figures& x : r.exchanges) r.weight_gap.merge(x.weight_gap);
  r.times = times_of(r.exchanges, outcome.workers.size());
  return r;
}

run_trace trace_of(const run_outcome& outcome, instant started, instant ended) {
  run_trace t{started, ended, ending_in_words(outcome.how)};
  t.switches = outcome.switches;
  const auto add = [&t](const auto& track, const std::string& name) {
    if (track)
      t.tracks.push_back(track);
    else
      t.lost.push_back(name);
  };
  for (const worker_report& w : outcome.workers) {
    const std::string name = "worker " + std::to_string(w.worker.value);
    add(w.trace, name);
    for (const piece_report& p : w.pieces) add(p.trace, name + ", piece on " + p.device);
  }
  for (std::size_t i = 0; i < outcome.shards.size(); ++i)
    add(outcome.shards[i].trace, "shard " + std::to_string(i));
  if (outcome.feeder_trace || outcome.feeder_lost) add(outcome.feeder_trace, "feeder");
  if (t.tracks.empty()) t.lost.clear(); // nothing was recorded
  return t;
}

std::optional<std::vector<float>> joined_weights(const run_outcome& outcome, const parameter_layout& layout) {
  std::vector<float> joined(layout.size());
  for (const shard_report& s : outcome.shards) {
    if (!s.values) return std::nullopt;
    std::ranges::copy(s.values->as<float>(),
                      joined.begin() + static_cast<std::ptrdiff_t>(layout.shard(s.shard).begin));
  }
  return joined;
}

std::optional<double> mean_factor(const cure& c, const staleness_histogram& gaps) {
  if (gaps.empty() || !c.has_factor()) return std::nullopt;
  double sum = 0;
  for (const auto& [gap, count] : gaps.buckets()) sum += c.factor(gap) * static_cast<double>(count);
  return sum / static_cast<double>(gaps.total());
}

std::string in_words(const wait_named& w, instant now) {
  char span[32];
  std::snprintf(span, sizeof span, ", for %.1f s", in_seconds(now - instant{w.since}));
  return w.what + span;
}

} // namespace mailgrad
