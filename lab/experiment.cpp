#include <mailgrad/lab/experiment.hpp>
#include <mailgrad/lab/sweep/sweep_folder.hpp>
#include <mailgrad/lab/theory.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace mailgrad::lab {

double seeds_mean::by_chance() const {
  return students_quantile(spread.seeds - 1, 1e-4) * spread.error_of_mean();
}

// One function of each source in experiments/.
using run_function = void(const experiment_options& options, experiment_result& result);
run_function run_backup_workers, run_compressed_gradients, run_delayed_optimizers, run_error_and_time,
    run_fresh_gradients, run_gap_and_lag, run_hogwild, run_implicit_momentum, run_noise_floor,
    run_outer_cures, run_queue_staleness, run_quorum_goodput, run_rescue, run_slowdown, run_stability_map,
    run_staleness_laws, run_stragglers, run_unlike_data, run_unlike_data_and_time;

namespace {

constexpr double gap = std::numeric_limits<double>::quiet_NaN(); ///< where a line breaks off

/// What a series shows, in the order in which they are listed.
enum shown : std::size_t { computing, discarded, at_barrier, under_bound, for_batch, on_the_way };

constexpr std::pair<trace_kind, shown> shown_kinds[] = {
    {trace_kind::compute, computing},  {trace_kind::compare, computing},
    {trace_kind::barrier, at_barrier}, {trace_kind::policy_switch, at_barrier},
    {trace_kind::bound, under_bound},  {trace_kind::batch, for_batch},
    {trace_kind::wire, on_the_way}};

/// The row of a worker, counted from the top. A track of one is named "worker 3 on cpu:0".
std::optional<double> row_of_worker(std::string_view track, std::uint32_t workers) {
  for (std::uint32_t r = 0; r < workers; ++r)
    if (track.starts_with(fmt::format("worker {} ", r))) return workers - r;
  return {};
}

constexpr experiment all[] = {
    {"staleness-laws",
     "M workers that never wait are M - 1 versions late in the mean, whatever the law of their times",
     "counting; Zhang, Gupta, Lian & Liu, IJCAI 2016, arXiv:1511.05950; Ho et al., NIPS 2013",
     run_staleness_laws},
    {"stability-map", "with a fixed delay tau, descent is stable up to a step of 2 sin(pi / (4 tau + 2))",
     "Levin & May, J. Theor. Biol. 1976; as Lemma 1 of Yang et al., PipeMare, MLSys 2021", run_stability_map},
    {"noise-floor", "the more workers, the further from its minimum noise keeps asynchronous descent",
     "closed form for a quadratic; compare Mitliagkas et al., Allerton 2016", run_noise_floor},
    {"implicit-momentum",
     "M workers without memory act in the mean as momentum 1 - 1/M at a step M times shorter",
     "Mitliagkas, Zhang, Hadjis & Re, Allerton 2016, arXiv:1605.09774", run_implicit_momentum},
    {"stragglers", "a barrier waits for the slowest of all; asynchrony pays the mean time whatever the law",
     "Dutta, Joshi, Ghosh, Dube & Nagpurkar, AISTATS 2018, arXiv:1803.01113; Ho et al., NIPS 2013",
     run_stragglers},
    {"error-and-time", "by updates a barrier is ahead, by time asynchrony is, until its higher noise floor",
     "Dutta, Joshi, Ghosh, Dube & Nagpurkar, AISTATS 2018, arXiv:1803.01113", run_error_and_time},
    {"backup-workers", "not to wait for the slowest few shortens updates by more than the gradients it drops",
     "Chen, Pan, Monga, Bengio & Jozefowicz, 2016, arXiv:1604.00981", run_backup_workers},
    {"fresh-gradients",
     "with workers of unlike speed, Ringmaster is ahead of Rennala, and both of adaptive steps",
     "Maranjyan, Tyurin & Richtarik, Ringmaster ASGD, ICML 2025; Tyurin & Richtarik, NeurIPS 2023",
     run_fresh_gradients},
    {"gap-and-lag", "momentum makes weights move further within one lag; DANA takes nearly all of that back",
     "Hakimi, Barkai, Gabel & Schuster, 2019, arXiv:1907.11612; Barkai, Hakimi & Schuster, ICLR 2020",
     run_gap_and_lag},
    {"slowdown", "a barrier until a worker slows down, then async: low noise first, and full pace then",
     "Li, Mangoubi, Xu & Guo, Sync-Switch, ICDCS 2021, arXiv:2104.08364", run_slowdown},
    {"unlike-data", "where workers have unlike data, asynchronous descent ends where the fast ones pull it",
     "closed form; compare Rescaled ASGD, 2026, arXiv:2605.13434, and Koloskova et al., NeurIPS 2022",
     run_unlike_data},
    {"unlike-data-and-time",
     "of the methods that weigh workers alike, Ringleader is nearer sooner than Malenia, as it drops nothing",
     "Tyurin & Richtarik, NeurIPS 2023, arXiv:2305.12387; Maranjyan & Richtarik, ICLR 2026, arXiv:2509.22860",
     run_unlike_data_and_time},
    {"rescue", "a step divided by its staleness lets 30 workers train at the learning rate of one",
     "Zhang, Gupta, Lian & Liu, IJCAI 2016, arXiv:1511.05950, Figure 3, there of CIFAR-10", run_rescue},
    {"hogwild", "on sparse data, workers that write without locks lose no accuracy (real threads)",
     "Niu, Recht, Re & Wright, Hogwild!, NIPS 2011, arXiv:1106.5730", run_hogwild, true},
    {"queue-staleness",
     "a full queue of Q from P producers to a consumer of B makes items (P + Q - B) / B versions old",
     "Little's law; the queue is that of asynchronous reinforcement learning, as AReaL, 2025, "
     "arXiv:2505.24298",
     run_queue_staleness},
    {"quorum-goodput",
     "a quorum of K among n learners that are up by chance loses little; one of all loses most",
     "Douillard et al., Decoupled DiLoCo, 2026, arXiv:2604.21428; a binomial sum", run_quorum_goodput},
    {"outer-cures",
     "stale differences of local steps upset an outer momentum, unless workers start ahead of it",
     "Ajanthan et al., MLA, 2025; Shah & Sun, CGAD, 2026, arXiv:2605.09126; Al Asif et al., HeLoCo, 2026, "
     "arXiv:2606.00271",
     run_outer_cures},
    {"delayed-optimizers", "gradients one version old cost AdamW more than Muon",
     "Zmushko, Petrov, Abdullaev, Khrushchev & Horvath, ICML 2026, arXiv:2606.30634", run_delayed_optimizers},
    {"compressed-gradients",
     "of unlike data, error feedback finds the minimum in spite of compression; stale gradients lose less",
     "Karimireddy, Rebjock, Stich & Jaggi, ICML 2019, arXiv:1901.09847; Stich & Karimireddy, JMLR 2020, "
     "arXiv:1909.05350",
     run_compressed_gradients},
};

std::string field(std::string_view text) { return csv_field(text); }
/// An unknown number is an empty field.
std::string field(double number) { return std::isnan(number) ? "" : fmt::format("{:.9g}", number); }

std::string_view in_words(relation how) {
  return how == relation::equals ? "equals" : how == relation::at_most ? "at most" : "at least";
}

} // namespace

figure timeline_figure(const run_trace& trace, std::uint32_t workers, double until_seconds, std::string name,
                       std::string title) {
  figure f(
      std::move(name), std::move(title),
      fmt::format("What {} workers did in the first {:g} seconds: a bar is the computation of a gradient, "
                  "a line is a wait, and a mark is a gradient that was discarded when it came.",
                  workers, until_seconds),
      {"time [s]"}, {"worker"},
      {{"computes", series_look::bars},
       {"discarded", series_look::points},
       {"waits at a barrier", series_look::line},
       {"waits under a bound", series_look::line},
       {"waits for a batch", series_look::line},
       {"gradient and weights under way", series_look::line},
       {"discarded", series_look::points}});
  for (std::uint32_t r = workers; r > 0; --r) f.y.marks.push_back(std::to_string(r - 1));
  const auto since = [&](instant t) { return std::min(in_seconds(t - trace.started), until_seconds); };
  for (const auto& track : trace.tracks) {
    const std::optional<double> row = row_of_worker(track->name(), workers);
    for (const trace_event& e : track->events()) {
      if (in_seconds(e.begin - trace.started) >= until_seconds) continue;
      if (e.what == trace_kind::discard)
        f.series[discarded].points.push_back({since(e.begin), static_cast<double>(workers - e.peer)});
      const auto* const kind = std::ranges::find(shown_kinds, e.what, &std::pair<trace_kind, shown>::first);
      if (!row || kind == std::end(shown_kinds) || e.end <= e.begin) continue;
      auto& points = f.series[kind->second].points;
      points.insert(points.end(), {{since(e.begin), *row}, {since(e.end), *row}, {0, gap}});
    }
  }
  return f;
}

bool experiment_result::holds() const noexcept {
  return !claims.empty() && std::ranges::all_of(claims, &claim::holds);
}

void experiment_result::expect(std::string name, std::string unit, std::string from, double expected,
                               const seeds_mean& found, double tolerance, relation how) {
  claims.push_back({std::move(name), std::move(unit), std::move(from), expected, found.mean, found.spread,
                    tolerance, how});
}

std::span<const experiment> experiments() noexcept { return all; }

std::string points_csv(std::string_view experiment, const experiment_result& r) {
  std::string text = "experiment,figure,series,x,y,spread\n";
  for (const figure& f : r.figures)
    for (const figure_series& s : f.series)
      for (const figure_point& p : s.points)
        text += fmt::format("{},{},{},{},{},{}\n", experiment, field(f.name), field(s.name), field(p.x),
                            field(p.y), field(p.spread));
  return text;
}

std::string claims_csv(std::string_view experiment, const experiment_result& r) {
  std::string text =
      "experiment,claim,unit,relation,expected,expected_from,measured,spread,seeds,tolerance,holds\n";
  for (const claim& c : r.claims)
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", experiment, field(c.name), field(c.unit),
                    in_words(c.how), field(c.expected), field(c.expected_from), field(c.measured),
                    field(c.spread.deviation), c.spread.seeds, field(c.tolerance), c.holds() ? "yes" : "no");
  return text;
}

} // namespace mailgrad::lab
