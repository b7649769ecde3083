#include <mailgrad/cli/live/live_state.hpp>

#include <mailgrad/cli/report/expected_staleness.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

std::string one_line(const json& x) { return x.dump(-1, ' ', false, json::error_handler_t::replace); }

/// What the law of staleness asks of a run.
run_figures figures_of(const training_report& r) {
  run_figures run;
  run.policy = r.present_policy; // planned switches are still to come
  run.updates = r.updates;
  run.workers.resize(r.workers);
  for (const exchange_figures& x : r.exchanges) {
    std::uint64_t& gradients = run.workers[x.worker].gradients;
    gradients = std::max(gradients, x.gaps.total());
  }
  for (const policy_switch& s : r.switches) run.switches.push_back({s.step, s.from, s.to, s.why});
  return run;
}

/// Each takes a look at all workers, so of many it is told for the first ones, which the page shows.
json expected_in(const training_report& r) {
  constexpr std::size_t most_workers = 1024, first_of_more = 64;
  const run_figures run = figures_of(r);
  const std::size_t told = run.workers.size() > most_workers ? first_of_more : run.workers.size();
  json all = json::array();
  for (std::size_t worker = 0; worker < told; ++worker) {
    const expected_staleness x = expected_of(run, worker);
    all.push_back({{"mean", x.mean ? json(*x.mean) : json()},
                   {"at_most", x.at_most},
                   {"geometric", x.geometric ? json(*x.geometric) : json()},
                   {"in_words", x.in_words}});
  }
  return all;
}

json late_in(const training_report& r) {
  json all = json::array();
  for (const late_figures& x : r.late)
    all.push_back({{"shard", x.shard}, {"seconds_old", x.seconds_old ? json(*x.seconds_old) : json()}});
  return all;
}

} // namespace

std::string state_event(training_report r, const std::vector<std::string>& waits) {
  r.curve.clear(); // the page has its lines
  const std::uint64_t accounted = r.ledger.accounted_for();
  const std::uint64_t under_way = r.ledger.produced - std::min(r.ledger.produced, accounted);
  return one_line({{"report", json::parse(to_json(r))},
                   {"expected", expected_in(r)},
                   {"under_way", r.knows_ledger() ? json(under_way) : json()},
                   {"late", late_in(r)},
                   {"waits", waits}});
}

std::string begin_event(const live_beginning& x) {
  json curve = json::array();
  for (const metrics_line& line : x.curve) curve.push_back(json::parse(to_json(line)));
  return one_line({{"model", x.model},
                   {"total_steps", x.total_steps},
                   {"curve", std::move(curve)},
                   {"state", x.state.empty() ? json() : json::parse(x.state)},
                   {"key", x.key},
                   {"keeps_checkpoints", x.keeps_checkpoints}});
}

} // namespace mailgrad
