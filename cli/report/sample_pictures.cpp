#include <mailgrad/cli/report/pictures.hpp>

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

namespace mailgrad {

namespace {

std::string gaps_by_lag(const run_figures& run) {
  std::string data;
  for (const sampled_point& p : run.sampled) data += fmt::format("{:.9g} {:.9g}\n", p.lag, p.gap);
  return data;
}

std::string cosines_by_gap(const run_figures& run) {
  std::string data;
  for (const sampled_point& p : run.sampled)
    if (p.cosine) data += fmt::format("{:.9g} {:.9g}\n", p.gap, *p.cosine);
  return data;
}

/// The mean gap at each lag that is frequent enough to have one.
std::string mean_gaps(const run_figures& run) {
  constexpr int frequent = 5;
  std::map<double, std::pair<double, int>> sums;
  for (const sampled_point& p : run.sampled) {
    sums[p.lag].first += p.gap;
    ++sums[p.lag].second;
  }
  std::string data;
  for (const auto& [lag, sum] : sums)
    if (sum.second >= frequent) data += fmt::format("{:.9g} {:.9g}\n", lag, sum.first / sum.second);
  return data;
}

/// Of several runs, each has points of a form and colour of its own.
picture scatter(std::span<const run_figures> runs, picture p, const std::string& axes,
                std::string (*points_of)(const run_figures&), std::string (*line_of)(const run_figures&)) {
  std::string data, plots;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string points = points_of(runs[i]);
    if (points.empty()) continue;
    data += fmt::format("$points{} << EOD\n{}EOD\n", i, points);
    plots += fmt::format("{}$points{} using 1:2 with points ls {} ps 0.5 title {}", plots.empty() ? "" : ", ",
                         i, i + 1, gnuplot_text(label_of(runs, i)));
    const std::string line = line_of ? line_of(runs[i]) : std::string();
    if (line.empty()) continue;
    data += fmt::format("$line{} << EOD\n{}EOD\n", i, line);
    plots += fmt::format(", $line{} using 1:2 with lines ls {} title {}", i, i + 1,
                         gnuplot_text("mean of " + label_of(runs, i)));
  }
  if (plots.empty()) return p;
  p.script = run_styles() + data +
             fmt::format("set title {}\n{}set grid lc rgb '#cccccc'\nset key below height 1\n"
                         "set offsets 0, graph 0.05, graph 0.05, graph 0.05\nplot {}\n",
                         gnuplot_text(p.title), axes, plots);
  return p;
}

} // namespace

std::vector<picture> sample_pictures(std::span<const run_figures> runs) {
  std::vector<picture> drawn;
  picture gaps = scatter(
      runs,
      {"gap-lag",
       "How far weights moved within a lag",
       "A point is a sampled gradient at one shard. The gap is the distance between the weights it was "
       "computed from and those it was applied to, as a root mean square.",
       {}},
      "set xlabel 'lag [versions]'\nset ylabel 'gap [weights]'\nset xrange [0:*]\nset yrange [0:*]\n",
      gaps_by_lag, mean_gaps);
  if (!gaps.script.empty()) drawn.push_back(std::move(gaps));
  picture cosines = scatter(
      runs,
      {"cosine-gap",
       "What the gap does to gradients",
       "A point is a sampled gradient at one shard: the cosine between it and the gradient of the same batch "
       "at the weights it was applied to. 1 is no harm.",
       {}},
      "set xlabel 'gap [weights]'\nset ylabel 'cosine to a fresh gradient'\nset xrange [0:*]\n",
      cosines_by_gap, nullptr);
  if (!cosines.script.empty()) drawn.push_back(std::move(cosines));
  return drawn;
}

} // namespace mailgrad
