#include <mailgrad/cli/report/pictures.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

namespace {

constexpr std::size_t most_bars = 40;

/// The look of each part, with a hatching of its own, so that they differ in grey, too.
struct look {
  int pattern;
  const char* colour;
};
constexpr std::array<look, worker_time_parts.size()> looks{
    {{3, "#0072b2"}, {1, "#d55e00"}, {2, "#cc79a7"}, {4, "#000000"}, {0, "#000000"}}};

worker_times shares_of(std::size_t run, std::string name, const worker_figures& w, double wall) {
  const double known = w.compute_seconds + w.barrier_seconds + w.bound_seconds + w.feeder_seconds;
  worker_times t{
      run,
      std::move(name),
      {w.compute_seconds, w.barrier_seconds, w.bound_seconds, w.feeder_seconds, std::max(0.0, wall - known)}};
  for (double& part : t.shares) part *= 100 / wall;
  return t;
}

/// All workers of a run as one, with the mean of each of their times.
worker_figures mean_of(const run_figures& run) {
  worker_figures all;
  const auto count = static_cast<double>(run.workers.size());
  for (const worker_figures& w : run.workers) {
    all.compute_seconds += w.compute_seconds / count;
    all.barrier_seconds += w.barrier_seconds / count;
    all.bound_seconds += w.bound_seconds / count;
    all.feeder_seconds += w.feeder_seconds / count;
  }
  return all;
}

std::string bars_of(std::span<const worker_times> all, std::size_t run) {
  std::string data;
  for (const worker_times& t : all)
    if (t.run == run) data += fmt::format("{} {:.6g}\n", t.worker, fmt::join(t.shares, " "));
  return data;
}

/// The bars of one run. The first run names the parts in the legend.
std::string plots_of(std::string_view label, std::size_t which, bool first) {
  std::string plots = (first ? "" : ", ") + ("newhistogram " + gnuplot_text(std::string(label)));
  for (std::size_t k = 0; k < looks.size(); ++k)
    plots += fmt::format(", $run{} using {}{} lc rgb '{}' fs pattern {} border lc rgb '#000000' {}", which,
                         k + 2, k == 0 ? ":xtic(1)" : "", looks[k].colour, looks[k].pattern,
                         first ? "title " + gnuplot_text(worker_time_parts[k]) : "notitle");
  return plots;
}

} // namespace

std::vector<worker_times> times_of_workers(std::span<const run_figures> runs) {
  std::size_t bars = 0;
  for (const run_figures& run : runs) bars += run.workers.size();
  std::vector<worker_times> all;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const run_figures& run = runs[i];
    if (run.wall_seconds <= 0) continue;
    if (bars > most_bars) {
      all.push_back(shares_of(i, "all", mean_of(run), run.wall_seconds));
      continue;
    }
    for (std::size_t rank = 0; rank < run.workers.size(); ++rank)
      all.push_back(shares_of(i, std::to_string(rank), run.workers[rank], run.wall_seconds));
  }
  return all;
}

picture worker_time_picture(std::span<const run_figures> runs) {
  picture p{
      "time-workers",
      "Where the time of the workers went",
      "Shares of the time from the beginning to the end of a run. Exchange and other is reading weights, "
      "messages, updates, and waiting for a core. A worker may wait for a batch and for its weights at once, "
      "so "
      "its parts may add up to more than 100 %.",
      {}};
  const std::vector<worker_times> all = times_of_workers(runs);
  std::string data, plots;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string bars = bars_of(all, i);
    if (bars.empty()) continue;
    data += fmt::format("$run{} << EOD\n{}EOD\n", i, bars);
    plots += plots_of(runs.size() == 1 ? "" : fmt::format("run {}", i + 1), i, plots.empty());
  }
  if (plots.empty()) {
    p.caption = "No run lasted long enough to be measured.";
    return p;
  }
  const bool each = all.front().worker != "all";
  if (!each) p.caption += " Each bar is the mean of all workers of a run.";
  p.script =
      data + fmt::format(
                 "set title {}\nset ylabel 'share of the run [%]'\nset xlabel {} offset 0,{}\nset bmargin 6\n"
                 "set yrange [0:100<*] noextend\nset grid y lc rgb '#cccccc'\nset style data histograms\n"
                 "set style histogram rowstacked title offset 0,1.2\nset boxwidth 0.7\n"
                 "set key outside right top invert Left reverse\nset xtics nomirror\nplot {}\n",
                 gnuplot_text(p.title), gnuplot_text(each ? "worker" : "run"), runs.size() == 1 ? 0 : -1.6,
                 plots);
  p.width = 860;
  return p;
}

picture gradient_time_picture(std::span<const run_figures> runs) {
  picture p{"time-gradient",
            "Where the time of a gradient went",
            "The mean of each part of a gradient's way, and a line up to the longest. Reading, mailbox and "
            "update count "
            "once for each shard.",
            {}};
  std::vector<std::string> names;
  for (const run_figures& run : runs)
    for (const time_part& t : run.times)
      if (std::ranges::find(names, t.name) == names.end()) names.push_back(t.name);
  std::string data, plots;
  const double width = 0.6 / static_cast<double>(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::string lines;
    for (const time_part& t : runs[i].times)
      if (t.mean > 0 && t.longest >= t.mean)
        lines += fmt::format("{:.6g} {:.6g} {:.6g}\n",
                             static_cast<double>(std::ranges::find(names, t.name) - names.begin()) +
                                 width * (static_cast<double>(i) - static_cast<double>(runs.size() - 1) / 2),
                             1e3 * t.mean, 1e3 * t.longest);
    if (lines.empty()) continue;
    data += fmt::format("$run{} << EOD\n{}EOD\n", i, lines);
    plots += fmt::format("{}$run{} using 1:2:2:3 with yerrorbars ls {} ps 1.2 dt 1 title {}",
                         plots.empty() ? "" : ", ", i, i + 1, gnuplot_text(label_of(runs, i)));
  }
  if (plots.empty()) {
    p.caption = "No run measured where the time of its gradients went.";
    return p;
  }
  std::string tics;
  for (std::size_t i = 0; i < names.size(); ++i)
    tics += fmt::format("{}{} {}", i == 0 ? "" : ", ", gnuplot_text(names[i]), i);
  p.script = run_styles() + data +
             fmt::format(
                 "set title {}\nset xlabel 'part of the way'\nset ylabel 'time [ms]'\nset logscale y\n"
                 "set format y '%.10g'\nset grid y lc rgb '#cccccc'\nset key below height 1\nset xtics ({})\n"
                 "set xrange [-0.6:{}]\nplot {}\n",
                 gnuplot_text(p.title), tics, static_cast<double>(names.size()) - 0.4, plots);
  return p;
}

} // namespace mailgrad
