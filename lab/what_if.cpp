#include <mailgrad/lab/what_if.hpp>

#include <mailgrad/engine/delays/delay_law.hpp>
#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace mailgrad::lab {

namespace {

std::uint64_t steps_in(const recording& r) {
  std::uint64_t steps = 0;
  for (const auto& batches : r.batches) steps += batches.size();
  return steps;
}

std::string first_policy(const training_options& recorded, const recording& r) {
  return parse_policy_schedule(recorded.policy, r.header.ranks()).front().policy.text();
}

/// Whether the run switched as its options say, to the last policy of these.
bool switched_as_planned(const training_options& recorded, const recording& r) {
  const auto planned = parse_policy_schedule(recorded.policy, r.header.ranks());
  if (is_automatic(recorded.policy) || planned.size() != r.end.switches.size() + 1) return false;
  for (std::size_t i = 1; i < planned.size(); ++i)
    if (planned[i].policy.text() != r.end.switches[i - 1].policy) return false;
  return true;
}

/// "async, sync@400", as the run switched: by plan, by itself or by hand. Of two switches after the same step
/// the later one counts.
std::string policies_of(const training_options& recorded, const recording& r) {
  if (switched_as_planned(recorded, r)) return recorded.policy;
  std::map<std::uint64_t, std::string> by_step{{0, first_policy(recorded, r)}};
  for (const recorded_switch& s : r.end.switches)
    by_step[std::accumulate(s.batches.begin(), s.batches.end(), std::uint64_t{0})] = s.policy;
  std::string text;
  for (const auto& [step, policy] : by_step) {
    if (step >= steps_in(r)) break; // nobody trained under it
    text += step == 0 ? policy : fmt::format(", {}@{}", policy, step);
  }
  return text;
}

replay_terms terms_of(const training_options& recorded, const recording& r) {
  const bool elastic = cure_spec(recorded.cure, r.header.ranks()).traits().pull.has_value();
  return {first_policy(recorded, r), recorded.local_steps, elastic};
}

training_options virtual_twin_of(training_options o, const recording& r, const what_if& changed) {
  o.policy = changed.policy.empty() ? policies_of(o, r) : changed.policy;
  o.steps = steps_in(r);
  o.delays = changed.delays;
  o.delays_seed = changed.delays_seed;
  o.parameters.clear();
  o.precision = product_precision::float32;
  o.micro_batches = 1;
  o.slots = 0;
  o.waits_for_workers = {};
  o.all_reduce = false;
  o.record.clear();
  o.replay = nullptr;
  o.metrics.clear();
  o.tensorboard.clear();
  o.evaluate_every = {};
  o.stop_when.clear();
  o.patience = 0;
  o.keep = kept_weights::last;
  o.checkpoints = {};
  o.resume = nullptr;
  o.trace_events = 0;
  return o;
}

/// On a GPU a worker pushes a gradient when its step begins, so its recorded moment does not tell the end.
void require_pushed_when_computed(const training_options& o) {
  if (std::ranges::any_of(o.parameters, [](const device& d) { return d.kind != device_kind::cpu; }))
    throw std::invalid_argument("what-if: the weights of this run lay on a GPU, where gradients are pushed "
                                "before they are computed; its recording does not tell how long steps took");
}

void require_slowed(const std::vector<slowed_worker>& slowed, std::uint32_t workers) {
  for (const slowed_worker& s : slowed) {
    if (s.worker.value >= workers)
      throw std::invalid_argument(
          fmt::format("slow: there is no worker {} of {}; they are counted from 0", s.worker.value, workers));
    if (!(s.factor > 0) || !std::isfinite(s.factor))
      throw std::invalid_argument(
          fmt::format("slow: worker {} by a factor of {:g}; it must be above 0", s.worker.value, s.factor));
  }
}

/// The recorded steps of each worker; of several workers with the same, each begins at another place.
std::function<std::unique_ptr<delay_law>(rank)> as_recorded(const recorded_pace& p, std::uint32_t workers) {
  std::vector<std::shared_ptr<std::vector<double>>> lists;
  for (const std::vector<instant>& steps : p.steps) {
    lists.push_back(std::make_shared<std::vector<double>>());
    std::ranges::transform(steps, std::back_inserter(*lists.back()), in_seconds);
  }
  const auto had = static_cast<std::uint32_t>(lists.size());
  const std::uint32_t sharers = (workers + had - 1) / had;
  return [lists, had, sharers](rank worker) -> std::unique_ptr<delay_law> {
    const auto& list = lists[worker.value % had];
    return std::make_unique<listed_delay>(list, list->size() * (worker.value / had) / sharers);
  };
}

} // namespace

run_figures figures_of(const recorded_pace& p) {
  return {in_seconds(p.lasted), p.updates, p.discarded, in_seconds(p.waited), p.gaps};
}

run_figures figures_of(const training_report& r) {
  return {r.wall_seconds, r.updates, r.ledger.discarded_in_all(), r.waits.barrier + r.waits.bound,
          r.staleness};
}

/// Times are half a nanosecond early, so that no rounding leaves a step to the line before its own.
std::string trace_csv(const recorded_pace& p) {
  std::vector<std::tuple<instant, std::size_t, instant>> rows; // begin, worker, duration
  for (std::size_t w = 0; w < p.steps.size(); ++w) {
    instant begin{0};
    for (const instant step : p.steps[w]) {
      rows.emplace_back(begin, w, step);
      begin += step;
    }
  }
  std::ranges::sort(rows);
  std::string text = "t,worker,duration\n";
  for (const auto& [begin, worker, duration] : rows)
    text += fmt::format("{:.10f},{},{:.9f}\n", std::max(0.0, in_seconds(begin) - 5e-10), worker,
                        in_seconds(duration));
  return text;
}

double total_variation(const staleness_histogram& a, const staleness_histogram& b) {
  std::map<std::uint64_t, double> difference;
  for (const auto& [gap, count] : a.buckets())
    difference[gap] += static_cast<double>(count) / static_cast<double>(a.total());
  for (const auto& [gap, count] : b.buckets())
    difference[gap] -= static_cast<double>(count) / static_cast<double>(b.total());
  double sum = 0;
  for (const auto& [gap, d] : difference) sum += std::abs(d);
  return sum / 2;
}

retimed_run::retimed_run(const training_options& recorded, const recording& order, const what_if& changed)
    : pace_(pace_of(order, terms_of(recorded, order))), changed_(changed),
      workers_(changed.workers > 0 ? changed.workers : order.header.workers),
      options_(virtual_twin_of(recorded, order, changed)) {
  require_pushed_when_computed(recorded);
  require_slowed(changed_.slowed, workers_);
  if (!changed_.delays.empty()) delay_spec(changed_.delays, workers_); // refuses what is none
}

named_delays retimed_run::delays() const {
  named_delays all{"as recorded", as_recorded(pace_, workers_)};
  if (!changed_.delays.empty())
    all = {changed_.delays,
           [spec = std::make_shared<const delay_spec>(changed_.delays, workers_),
            seed = changed_.delays_seed](rank worker) { return spec->law_of(worker, seed); }};
  if (changed_.slowed.empty()) return all;
  std::map<std::uint32_t, double> factors;
  for (const slowed_worker& s : changed_.slowed) {
    factors[s.worker.value] = s.factor;
    all.name += fmt::format(", worker {} times {:g}", s.worker.value, s.factor);
  }
  all.law_of = [law_of = std::move(all.law_of), factors](rank worker) -> std::unique_ptr<delay_law> {
    auto law = law_of(worker);
    const auto slow = factors.find(worker.value);
    if (slow == factors.end()) return law;
    return std::make_unique<slowed_delay>(std::move(law), slow->second);
  };
  return all;
}

} // namespace mailgrad::lab
