#include <mailgrad/cli/report/pictures.hpp>
#include <mailgrad/engine/account/figures.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace mailgrad {

namespace {

struct run_style {
  const char* colour; ///< of Okabe & Ito's palette, which the colour-blind can tell apart
  int dashes, marker; ///< as gnuplot numbers them
  int open_marker;    ///< of the same form, for figures of the test set
};

constexpr std::array<run_style, most_runs> styles{{{"#000000", 1, 7, 6},
                                                   {"#d55e00", 2, 5, 4},
                                                   {"#0072b2", 4, 9, 8},
                                                   {"#009e73", 3, 13, 12},
                                                   {"#cc79a7", 5, 11, 10},
                                                   {"#777777", 1, 15, 14}}};

/// Commands that set a line style for each run: colour, dashes and marker all differ.
std::string run_styles() {
  std::string text;
  for (std::size_t i = 0; i < styles.size(); ++i)
    text += fmt::format("set style line {} lc rgb '{}' dt {} pt {} ps 0.9 lw 2\n", i + 1, styles[i].colour,
                        styles[i].dashes, styles[i].marker);
  return text;
}

using coordinate = double (*)(const metrics_line&);
using curve_figure = std::optional<double> metrics_line::*;

struct axis {
  const char* name;  ///< for the file
  const char* label; ///< with its unit
  bool counts;       ///< of something, so that the marks are whole numbers
  coordinate at;
};

constexpr std::array axes{
    axis{"time", "time [s]", false, [](const metrics_line& p) { return p.time_s; }},
    axis{"updates", "updates of the weights", true,
         [](const metrics_line& p) { return static_cast<double>(p.updates); }},
    axis{"samples", "samples trained", true,
         [](const metrics_line& p) { return static_cast<double>(p.samples); }},
};

struct plotted {
  std::string data; ///< definitions of axes and data blocks
  std::vector<std::string> plots;
};

std::size_t add_points(std::string& data, const report_file& run, const axis& x, curve_figure y) {
  std::size_t points = 0;
  for (const metrics_line& p : run.report.curve)
    if (p.*y) {
      data += fmt::format("{:.9g} {:.9g}\n", x.at(p), *(p.*y));
      ++points;
    }
  return points;
}

/// The samples that a figure is of, and how its line looks beside the one of training.
struct measured_on {
  const char* name;
  int width, dashes;
};
constexpr measured_on training_set{"training", 0, 0}, validation_set{"validation", 2, 2},
    test_set{"test", 1, 3};

/// A line; that of training has about ten markers on it, those of tests have one for each.
void add_line(plotted& all, std::span<const report_file> runs, std::size_t which, const axis& x,
              curve_figure y, const measured_on& samples) {
  const std::string block = fmt::format("${}{}", samples.name, which);
  std::string data;
  const std::size_t points = add_points(data, runs[which], x, y);
  if (points == 0) return;
  all.data += block + " << EOD\n" + data + "EOD\n";
  const std::string how =
      samples.width == 0
          ? fmt::format("with linespoints ls {} pi {}", which + 1, std::max<std::size_t>(points / 10, 1))
          : fmt::format("with linespoints ls {} lw {} dt {} pt {} ps 1.2", which + 1, samples.width,
                        samples.dashes, styles[which].open_marker);
  all.plots.push_back(fmt::format("{} using 1:2 {} title {}", block, how,
                                  gnuplot_text(label_of(runs, which) + ", " + samples.name)));
}

/// The moment of a switch, between the points of the curve.
std::optional<std::pair<double, double>> place_of(const policy_switch& s, const report_file& run,
                                                  const axis& x) {
  const metrics_line* before = nullptr;
  for (const metrics_line& p : run.report.curve) {
    if (!p.train_loss) continue;
    if (p.steps >= s.step) {
      const double step = static_cast<double>(s.step);
      if (!before || p.steps == before->steps) return std::pair(x.at(p), *p.train_loss);
      const double share = (step - static_cast<double>(before->steps)) /
                           (static_cast<double>(p.steps) - static_cast<double>(before->steps));
      return std::pair(x.at(*before) + share * (x.at(p) - x.at(*before)),
                       *before->train_loss + share * (*p.train_loss - *before->train_loss));
    }
    before = &p;
  }
  return std::nullopt;
}

void add_switches(plotted& all, std::span<const report_file> runs, const axis& x) {
  std::string data;
  for (const report_file& run : runs)
    for (const policy_switch& s : run.report.switches)
      if (const auto place = place_of(s, run, x))
        data += fmt::format("{:.9g} {:.9g}\n", place->first, place->second);
  if (data.empty()) return;
  all.data += "$switches << EOD\n" + data + "EOD\n";
  all.plots.push_back(
      "$switches using 1:2 with points pt 3 ps 2 lw 2 lc rgb '#000000' title 'switch of policy'");
}

std::string axis_over(std::span<const report_file> runs, const axis& x) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const report_file& run : runs)
    for (const metrics_line& p : run.report.curve) {
      least = std::min(least, x.at(p));
      most = std::max(most, x.at(p));
    }
  return axis_of_counts(std::min(least, most), most);
}

plotted losses(std::span<const report_file> runs, const axis& x) {
  plotted all;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    add_line(all, runs, i, x, &metrics_line::train_loss, training_set);
    add_line(all, runs, i, x, &metrics_line::validation_loss, validation_set);
    add_line(all, runs, i, x, &metrics_line::test_loss, test_set);
  }
  if (all.plots.empty()) return all;
  add_switches(all, runs, x);
  if (x.counts) all.data += axis_over(runs, x);
  return all;
}

plotted tests(std::span<const report_file> runs, curve_figure on_test, curve_figure on_validation) {
  plotted all;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    add_line(all, runs, i, axes[0], on_validation, validation_set);
    add_line(all, runs, i, axes[0], on_test, test_set);
  }
  return all;
}

picture make(std::string name, std::string title, const axis& x, const char* y_label, const plotted& all) {
  picture p{std::move(name), std::move(title), {}, {}};
  p.script =
      run_styles() + fmt::format("set title {}\nset xlabel {}\nset ylabel {}\nset grid lc rgb '#cccccc'\n"
                                 "set key below height 1\nset format x '%.10g'\n"
                                 "set offsets graph 0.03, graph 0.03, graph 0.05, graph 0.05\n",
                                 gnuplot_text(p.title), gnuplot_text(x.label), gnuplot_text(y_label));
  p.script += all.data + "plot " + fmt::format("{}", fmt::join(all.plots, ", ")) + '\n';
  p.height += 20 * static_cast<unsigned>(all.plots.size() / 3);
  return p;
}

std::vector<picture> loss_pictures(std::span<const report_file> runs) {
  std::vector<picture> pictures;
  const auto add = [&](std::string name, std::string title, const axis& x, const char* y_label,
                       const plotted& all) {
    if (!all.plots.empty()) pictures.push_back(make(std::move(name), std::move(title), x, y_label, all));
  };
  for (const axis& x : axes)
    add(fmt::format("loss-{}", x.name), fmt::format("Loss against {}", x.name), x, "loss", losses(runs, x));
  if (pictures.empty()) return {};
  add("accuracy-time", "Accuracy against time", axes[0], "accuracy [share of samples]",
      tests(runs, &metrics_line::test_accuracy, &metrics_line::validation_accuracy));
  add("rmse-time", "Error against time", axes[0], "RMSE [unit of the targets]",
      tests(runs, &metrics_line::test_rmse, &metrics_line::validation_rmse));
  return pictures;
}

constexpr std::array worker_time_parts{"computing", "waiting at barriers", "waiting at a bound",
                                       "waiting for batches", "exchange and other"};

constexpr std::size_t most_bars = 40;

/// The look of each part, with a hatching of its own, so that they differ in grey, too.
struct look {
  int pattern;
  const char* colour;
};
constexpr std::array<look, worker_time_parts.size()> looks{
    {{3, "#0072b2"}, {1, "#d55e00"}, {2, "#cc79a7"}, {4, "#000000"}, {0, "#000000"}}};

/// What workers spent on each part, in seconds, without the rest of the run.
using part_seconds = std::array<double, worker_time_parts.size() - 1>;

std::vector<part_seconds> seconds_of_workers(const training_report& r) {
  std::vector<part_seconds> all(r.workers);
  for (const exchange_figures& x : r.exchanges) // every shard is told the same time
    all[x.worker][0] = std::max(all[x.worker][0], in_seconds(x.times.compute.total()));
  for (std::size_t worker = 0; worker < r.worker_waits.size(); ++worker) {
    const wait_seconds& w = r.worker_waits[worker];
    all[worker] = {all[worker][0], w.barrier, w.bound, w.feeder};
  }
  return all;
}

/// How a worker spent a run, in per cent. Its name is its rank, or "all" for the mean of all workers.
std::string bar_of(const std::string& name, const part_seconds& parts, double wall) {
  std::string bar = name;
  double known = 0;
  for (const double seconds : parts) {
    known += seconds;
    bar += fmt::format(" {:.6g}", 100 / wall * seconds);
  }
  return bar + fmt::format(" {:.6g}\n", 100 / wall * std::max(0.0, wall - known));
}

part_seconds mean_of(const std::vector<part_seconds>& workers) {
  part_seconds all{};
  for (const part_seconds& w : workers)
    for (std::size_t part = 0; part < all.size(); ++part)
      all[part] += w[part] / static_cast<double>(workers.size());
  return all;
}

/// The times of each worker, or of the mean worker where there are too many to show.
std::string bars_of(const training_report& r, bool each) {
  if (r.wall_seconds <= 0) return {};
  const std::vector<part_seconds> workers = seconds_of_workers(r);
  if (!each) return bar_of("all", mean_of(workers), r.wall_seconds);
  std::string bars;
  for (std::size_t rank = 0; rank < workers.size(); ++rank)
    bars += bar_of(std::to_string(rank), workers[rank], r.wall_seconds);
  return bars;
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

picture worker_time_picture(std::span<const report_file> runs) {
  picture p{"time-workers", "Where the time of the workers went", {}, {}};
  std::size_t workers = 0;
  for (const report_file& run : runs) workers += run.report.workers;
  const bool each = workers <= most_bars;
  std::string data, plots;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string bars = bars_of(runs[i].report, each);
    if (bars.empty()) continue;
    data += fmt::format("$run{} << EOD\n{}EOD\n", i, bars);
    plots += plots_of(runs.size() == 1 ? "" : fmt::format("run {}", i + 1), i, plots.empty());
  }
  if (plots.empty()) return p;
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

picture gradient_time_picture(std::span<const report_file> runs) {
  picture p{"time-gradient", "Where the time of a gradient went", {}, {}};
  std::vector<std::string> names;
  for (const report_file& run : runs)
    for (const figure& part : figures_of(run.report.times))
      if (!part.value.is_null() && std::ranges::find(names, part.name) == names.end())
        names.emplace_back(part.name);
  std::string data, plots;
  const double width = 0.6 / static_cast<double>(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::string lines;
    for (const figure& part : figures_of(runs[i].report.times)) {
      if (part.value.is_null()) continue;
      const auto mean = part.value.at("mean").get<double>(), longest = part.value.at("max").get<double>();
      if (mean > 0 && longest >= mean)
        lines += fmt::format("{:.6g} {:.6g} {:.6g}\n",
                             static_cast<double>(std::ranges::find(names, part.name) - names.begin()) +
                                 width * (static_cast<double>(i) - static_cast<double>(runs.size() - 1) / 2),
                             1e3 * mean, 1e3 * longest);
    }
    if (lines.empty()) continue;
    data += fmt::format("$run{} << EOD\n{}EOD\n", i, lines);
    plots += fmt::format("{}$run{} using 1:2:2:3 with yerrorbars ls {} ps 1.2 dt 1 title {}",
                         plots.empty() ? "" : ", ", i, i + 1, gnuplot_text(label_of(runs, i)));
  }
  if (plots.empty()) return p;
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

constexpr std::size_t most_panels = 15;
constexpr std::uint64_t most_boxes = 1'000; ///< of more none can be seen

/// The last gap that is shown: of a long tail a hundredth is left out, and the mean that is expected is not.
std::uint64_t last_shown(const training_report& r, const std::vector<expected_staleness>& wanted) {
  double last = 3;
  double left = static_cast<double>(r.staleness.total()) * 0.99;
  for (const auto& [gap, count] : r.staleness.buckets()) {
    if (left <= 0) break;
    left -= static_cast<double>(count);
    last = std::max(last, static_cast<double>(gap));
  }
  for (const expected_staleness& x : wanted) last = std::max(last, std::ceil(x.mean.value_or(0)));
  return static_cast<std::uint64_t>(last);
}

/// How the axis of gaps is divided: a box stands for so many gaps.
struct gap_axis {
  std::uint64_t last = 0;
  std::uint64_t width = 1;

  std::uint64_t box_of(std::uint64_t gap) const { return gap / width; }
  double middle_of(std::uint64_t box) const {
    return static_cast<double>(box * width) + static_cast<double>(width - 1) / 2;
  }
};

/// The shares of all gaps in per cent, by box.
std::map<std::uint64_t, double> shares(const staleness_histogram& gaps, const gap_axis& axis) {
  std::map<std::uint64_t, double> all;
  for (const auto& [gap, count] : gaps.buckets())
    all[axis.box_of(gap)] += 100 * static_cast<double>(count) / static_cast<double>(gaps.total());
  return all;
}

std::string share_lines(const staleness_histogram& gaps, const gap_axis& axis) {
  std::string data;
  for (const auto& [box, share] : shares(gaps, axis))
    data += fmt::format("{} {:.6g}\n", axis.middle_of(box), share);
  return data;
}

std::string law(double p, const gap_axis& axis) {
  const auto beyond = [p](std::uint64_t gap) { return std::pow(1 - p, static_cast<double>(gap)); };
  std::string data;
  for (std::uint64_t box = 0; box <= axis.box_of(axis.last); ++box)
    data += fmt::format("{} {:.6g}\n", axis.middle_of(box),
                        100 * (beyond(box * axis.width) - beyond((box + 1) * axis.width)));
  return data;
}

constexpr const char* measured = "with boxes fs solid 1.0 border lc rgb '#000000' lc rgb '#a6c8e4'";
constexpr const char* expected = "with linespoints lw 1.5 pt 6 ps 0.8 lc rgb '#000000'";
constexpr const char* mean_line = "lw 2.5 dt 2 lc rgb '#d55e00'";

std::string format_mean(const expected_staleness& wanted) {
  if (!wanted.mean) return {};
  return fmt::format(", {} {:.2f}", wanted.at_most ? "at most" : "expected", *wanted.mean);
}

std::string panel(const staleness_histogram& gaps, const expected_staleness& wanted, std::size_t rank,
                  const gap_axis& axis) {
  if (gaps.empty()) return fmt::format("set title 'worker {}: no gradient'\nplot NaN notitle\n", rank);
  std::string text = fmt::format("set title \"worker {}\\nmean {:.2f}{}\"\n$gaps << EOD\n{}EOD\n", rank,
                                 gaps.mean(), format_mean(wanted), share_lines(gaps, axis));
  if (wanted.mean)
    text += fmt::format("set arrow 1 from {0:.6g}, graph 0 to {0:.6g}, graph 1 nohead front {1}\n",
                        *wanted.mean, mean_line);
  if (wanted.geometric) text += "$law << EOD\n" + law(*wanted.geometric, axis) + "EOD\n";
  text += fmt::format("plot $gaps using 1:2 {} notitle{}\nunset arrow\n", measured,
                      wanted.geometric ? fmt::format(", $law using 1:2 {} notitle", expected) : "");
  return text;
}

std::string legend(const expected_staleness& wanted) {
  std::string plots = fmt::format("NaN {} title 'measured'", measured);
  if (wanted.geometric) plots += fmt::format(", NaN {} title 'law of random steps'", expected);
  if (wanted.mean)
    plots += fmt::format(", NaN with lines {} title '{}'", mean_line,
                         wanted.at_most ? "bound of the mean" : "mean expected");
  return "unset title\nunset border\nunset tics\nunset xlabel\nunset ylabel\nunset grid\nset key center "
         "center Left reverse samplen 2\nplot [0:1] [0:1] " +
         plots + '\n';
}

/// One row for a few; else as many columns as rows, or one more.
std::size_t columns_for(std::size_t panels) {
  if (panels <= 4) return panels;
  std::size_t columns = 1;
  while (columns * columns < panels) ++columns;
  return columns;
}

double highest(const std::vector<staleness_histogram>& workers, const gap_axis& axis) {
  double most = 1;
  for (const staleness_histogram& gaps : workers)
    for (const auto& [box, share] : shares(gaps, axis)) most = std::max(most, share);
  return most;
}

picture staleness_picture(std::span<const report_file> runs, std::size_t which) {
  const training_report& run = runs[which].report;
  picture p{fmt::format("staleness-{}", which + 1), "Staleness under " + label_of(runs, which), {}, {}};
  if (run.staleness.empty()) return p;
  std::vector<staleness_histogram> shown(std::min<std::size_t>(run.workers, most_panels));
  for (std::uint32_t rank = 0; rank < shown.size(); ++rank) shown[rank] = staleness_of(run, rank);
  const std::vector<expected_staleness> wanted = expected_of(run, run.policy, shown.size());
  const std::uint64_t last = last_shown(run, wanted);
  const gap_axis axis{last, last / most_boxes + 1};
  const double top = highest(shown, axis);
  const std::size_t panels = shown.size() + 1, columns = columns_for(panels);
  const std::size_t rows = (panels + columns - 1) / columns;
  p.width = std::max(static_cast<unsigned>(columns) * 240U, 480U);
  p.height = static_cast<unsigned>(rows) * 225U + 40U;
  p.script = fmt::format(
      "set multiplot layout {},{} title {}\nset xlabel 'gap [versions]'\nset ylabel 'gradients [%]'\n"
      "set xrange [-0.6:{}]\nset yrange [0:{:.4g}]\nset boxwidth {}\nset grid y lc rgb '#cccccc'\n"
      "set key off\nset xtics nomirror\nset ytics nomirror\n",
      rows, columns, gnuplot_text(p.title), static_cast<double>(last) + 0.6, top * 1.08,
      last > 60 ? static_cast<double>(axis.width) : 0.8);
  p.script += fmt::format("set xtics {}\nset ytics {}\n", distance_of_marks(static_cast<double>(last)),
                          distance_of_marks(top));
  for (std::size_t rank = 0; rank < shown.size(); ++rank)
    p.script += panel(shown[rank], wanted[rank], rank, axis);
  p.script += "set key on\n" + legend(wanted[0]) + "unset multiplot\n";
  return p;
}

std::string gaps_by_lag(const report_file& run) {
  std::string data;
  for (const sampled_figures& p : run.report.sampled) data += fmt::format("{} {:.9g}\n", p.lag, p.gap);
  return data;
}

std::string cosines_by_gap(const report_file& run) {
  std::string data;
  for (const sampled_figures& p : run.report.sampled)
    if (p.cosine) data += fmt::format("{:.9g} {:.9g}\n", p.gap, *p.cosine);
  return data;
}

std::string mean_gaps(const report_file& run) {
  constexpr int frequent = 5;
  std::map<std::uint64_t, std::pair<double, int>> sums;
  for (const sampled_figures& p : run.report.sampled) {
    sums[p.lag].first += p.gap;
    ++sums[p.lag].second;
  }
  std::string data;
  for (const auto& [lag, sum] : sums)
    if (sum.second >= frequent) data += fmt::format("{} {:.9g}\n", lag, sum.first / sum.second);
  return data;
}

/// Of several runs, each has points of a form and colour of its own.
picture scatter(std::span<const report_file> runs, picture p, const std::string& labels,
                std::string (*points_of)(const report_file&), std::string (*line_of)(const report_file&)) {
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
                         gnuplot_text(p.title), labels, plots);
  return p;
}

std::vector<picture> sample_pictures(std::span<const report_file> runs) {
  return {
      scatter(runs, {"gap-lag", "How far weights moved within a lag", {}, {}},
              "set xlabel 'lag [versions]'\nset ylabel 'gap [weights]'\nset xrange [0:*]\nset yrange [0:*]\n",
              gaps_by_lag, mean_gaps),
      scatter(runs, {"cosine-gap", "What the gap does to gradients", {}, {}},
              "set xlabel 'gap [weights]'\nset ylabel 'cosine to a fresh gradient'\nset xrange [0:*]\n",
              cosines_by_gap, nullptr)};
}

} // namespace

std::string label_of(std::span<const report_file> runs, std::size_t which) {
  std::string policy = runs[which].report.policy;
  constexpr std::size_t most = 48;
  if (policy.size() > most) {
    std::size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(policy[end]) & 0xC0U) == 0x80U) --end; // whole characters
    policy.resize(end);
    policy += "...";
  }
  return runs.size() == 1 ? policy : fmt::format("{}: {}", which + 1, policy);
}

std::string format_loss(std::span<const report_file> runs) {
  const auto has_loss = [](const report_file& run) {
    return std::ranges::any_of(run.report.curve,
                               [](const metrics_line& p) { return p.train_loss || p.tested(); });
  };
  const bool any = std::ranges::any_of(runs, has_loss);
  std::string text =
      any ? "Each point of a training loss is the mean since the point before." : "There is no loss to draw.";
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (!runs[i].has_curve)
      text += fmt::format(
          " Run {} is not shown: its report has no field 'curve', which older versions did not write.",
          i + 1);
  if (!any && std::ranges::all_of(runs, &report_file::has_curve))
    text += " A run in virtual time keeps none on its way; 'mailgrad lab sweep' draws those of such runs.";
  return text;
}

std::vector<picture> pictures_of(std::span<const report_file> runs) {
  std::vector<picture> all = loss_pictures(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) all.push_back(staleness_picture(runs, i));
  for (picture& p : sample_pictures(runs)) all.push_back(std::move(p));
  all.push_back(worker_time_picture(runs));
  all.push_back(gradient_time_picture(runs));
  std::erase_if(all, [](const picture& p) { return p.script.empty(); });
  return all;
}

} // namespace mailgrad
