#include <mailgrad/cli/live/live_state.hpp>

#include <mailgrad/cli/report/expected_staleness.hpp>
#include <mailgrad/engine/account/figures.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

using json = nlohmann::ordered_json;

std::string one_line(const json& x) { return x.dump(-1, ' ', false, json::error_handler_t::replace); }

/// Of many workers it is told for the first ones, which the page shows.
json expected_in(const training_report& r, const std::string& policy) {
  constexpr std::size_t most_workers = 1024, first_of_more = 64;
  json all = json::array();
  for (const expected_staleness& x :
       expected_of(r, policy, r.workers > most_workers ? first_of_more : r.workers))
    all.push_back({{"mean", x.mean ? json(*x.mean) : json()},
                   {"at_most", x.at_most},
                   {"geometric", x.geometric ? json(*x.geometric) : json()},
                   {"in_words", x.in_words}});
  return all;
}

json late_in(const training_report& r) {
  json all = json::array();
  for (const late_figures& x : r.late) all.push_back(object_of(figures_of(x)));
  return all;
}

} // namespace

json state_of(const training_report& r, const std::string& policy, json report,
              const std::vector<std::string>& waits) {
  const std::uint64_t accounted = r.ledger.accounted_for();
  const std::uint64_t under_way = r.ledger.produced - std::min(r.ledger.produced, accounted);
  return {{"report", std::move(report)},
          {"expected", expected_in(r, policy)},
          {"under_way", r.knows_ledger() ? json(under_way) : json()},
          {"late", late_in(r)},
          {"waits", waits}};
}

/// The page has the lines of the curve, and planned switches are still to come.
std::string state_event(training_report r, const std::vector<std::string>& waits) {
  r.curve.clear();
  return one_line(state_of(r, r.present_policy, object_of(figures_of(r)), waits));
}

std::string begin_event(const live_beginning& x) {
  json curve = json::array();
  for (const metrics_line& line : x.curve) curve.push_back(object_of(figures_of(line)));
  return one_line({{"model", x.model},
                   {"total_steps", x.total_steps},
                   {"curve", std::move(curve)},
                   {"state", x.state.empty() ? json() : json::parse(x.state)},
                   {"key", x.key},
                   {"keeps_checkpoints", x.keeps_checkpoints}});
}

} // namespace mailgrad
