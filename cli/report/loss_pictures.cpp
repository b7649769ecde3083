#include <mailgrad/cli/report/axis_marks.hpp>
#include <mailgrad/cli/report/pictures.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

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

using coordinate = double (*)(const curve_point&);
using curve_figure = std::optional<double> curve_point::*;

struct axis {
  const char* name;  ///< for the file
  const char* label; ///< with its unit
  bool counts;       ///< of something, so that the marks are whole numbers
  coordinate at;
};

constexpr std::array axes{
    axis{"time", "time [s]", false, [](const curve_point& p) { return p.time_s; }},
    axis{"updates", "updates of the weights", true, [](const curve_point& p) { return p.updates; }},
    axis{"samples", "samples trained", true, [](const curve_point& p) { return p.samples; }},
};

struct plotted {
  std::string data; ///< definitions of axes and data blocks
  std::vector<std::string> plots;
};

std::size_t add_points(std::string& data, const run_figures& run, const axis& x, curve_figure y) {
  std::size_t points = 0;
  for (const curve_point& p : *run.curve)
    if (p.*y) {
      data += fmt::format("{:.9g} {:.9g}\n", x.at(p), *(p.*y));
      ++points;
    }
  return points;
}

/// The samples that a figure is of.
enum class measured_on : std::uint8_t { training, validation, test };

const char* in_words(measured_on samples) {
  switch (samples) {
  case measured_on::training:
    return "training";
  case measured_on::validation:
    return "validation";
  case measured_on::test:
    break;
  }
  return "test";
}

/// A line; that of training has about ten markers on it, those of tests have one for each.
void add_line(plotted& all, const run_figures& run, std::size_t which, const axis& x, curve_figure y,
              const std::string& title, measured_on samples) {
  const std::string block = fmt::format("${}{}", in_words(samples), which);
  std::string data;
  const std::size_t points = add_points(data, run, x, y);
  if (points == 0) return;
  all.data += block + " << EOD\n" + data + "EOD\n";
  const std::string how =
      samples == measured_on::training
          ? fmt::format("with linespoints ls {} pi {}", which + 1, std::max<std::size_t>(points / 10, 1))
          : fmt::format("with linespoints ls {} lw {} dt {} pt {} ps 1.2", which + 1,
                        samples == measured_on::test ? 1 : 2, samples == measured_on::test ? 3 : 2,
                        styles[which].open_marker);
  all.plots.push_back(fmt::format("{} using 1:2 {} title {}", block, how, gnuplot_text(title)));
}

/// The moment of a switch, between the points of the curve.
std::optional<std::pair<double, double>> place_of(const switch_figures& s, const run_figures& run,
                                                  const axis& x) {
  const curve_point* before = nullptr;
  for (const curve_point& p : *run.curve) {
    if (!p.train_loss) continue;
    const double step = static_cast<double>(s.step);
    if (p.steps >= step) {
      if (!before || p.steps == before->steps) return std::pair(x.at(p), *p.train_loss);
      const double share = (step - before->steps) / (p.steps - before->steps);
      return std::pair(x.at(*before) + share * (x.at(p) - x.at(*before)),
                       *before->train_loss + share * (*p.train_loss - *before->train_loss));
    }
    before = &p;
  }
  return std::nullopt;
}

void add_switches(plotted& all, std::span<const run_figures> runs, const axis& x) {
  std::string data;
  for (const run_figures& run : runs)
    if (run.curve)
      for (const switch_figures& s : run.switches)
        if (const auto place = place_of(s, run, x))
          data += fmt::format("{:.9g} {:.9g}\n", place->first, place->second);
  if (data.empty()) return;
  all.data += "$switches << EOD\n" + data + "EOD\n";
  all.plots.push_back(
      "$switches using 1:2 with points pt 3 ps 2 lw 2 lc rgb '#000000' title 'switch of policy'");
}

std::string axis_over(std::span<const run_figures> runs, const axis& x) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const run_figures& run : runs)
    if (run.curve)
      for (const curve_point& p : *run.curve) {
        least = std::min(least, x.at(p));
        most = std::max(most, x.at(p));
      }
  return axis_of_counts(std::min(least, most), most);
}

plotted losses(std::span<const run_figures> runs, const axis& x) {
  plotted all;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].curve) continue;
    const std::string label = label_of(runs, i);
    add_line(all, runs[i], i, x, &curve_point::train_loss, label + ", training", measured_on::training);
    add_line(all, runs[i], i, x, &curve_point::validation_loss, label + ", validation",
             measured_on::validation);
    add_line(all, runs[i], i, x, &curve_point::test_loss, label + ", test", measured_on::test);
  }
  if (all.plots.empty()) return all;
  add_switches(all, runs, x);
  if (x.counts) all.data += axis_over(runs, x);
  return all;
}

plotted tests(std::span<const run_figures> runs, curve_figure on_test, curve_figure on_validation) {
  plotted all;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].curve) continue;
    const std::string label = label_of(runs, i);
    add_line(all, runs[i], i, axes[0], on_validation, label + ", validation", measured_on::validation);
    add_line(all, runs[i], i, axes[0], on_test, label + ", test", measured_on::test);
  }
  return all;
}

/// A sentence for each run that has no curve.
std::string without_curve(std::span<const run_figures> runs) {
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (!runs[i].curve)
      text += fmt::format(
          " Run {} is not shown: its report has no field 'curve', which older versions did not write.",
          i + 1);
  return text;
}

std::string why_none(std::span<const run_figures> runs) {
  const std::string older = without_curve(runs);
  return older.empty()
             ? " A run in virtual time keeps none on its way; 'mailgrad lab sweep' draws those of such runs."
             : older;
}

picture make(std::string name, std::string title, std::string caption, const axis& x, const char* y_label,
             const plotted& all) {
  picture p{std::move(name), std::move(title), std::move(caption), {}};
  p.script =
      run_styles() + fmt::format("set title {}\nset xlabel {}\nset ylabel {}\nset grid lc rgb '#cccccc'\n"
                                 "set key below height 1\nset format x '%.10g'\n"
                                 "set offsets graph 0.03, graph 0.03, graph 0.05, graph 0.05\n",
                                 gnuplot_text(p.title), gnuplot_text(x.label), gnuplot_text(y_label));
  p.script += all.data + "plot " + fmt::format("{}", fmt::join(all.plots, ", ")) + '\n';
  p.height += 20 * static_cast<unsigned>(all.plots.size() / 3);
  return p;
}

} // namespace

std::string run_styles() {
  std::string text;
  for (std::size_t i = 0; i < styles.size(); ++i)
    text += fmt::format("set style line {} lc rgb '{}' dt {} pt {} ps 0.9 lw 2\n", i + 1, styles[i].colour,
                        styles[i].dashes, styles[i].marker);
  return text;
}

std::string label_of(std::span<const run_figures> runs, std::size_t which) {
  std::string policy = runs[which].policy;
  constexpr std::size_t most = 48;
  if (policy.size() > most) {
    std::size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(policy[end]) & 0xC0U) == 0x80U) --end; // whole characters
    policy.resize(end);
    policy += "...";
  }
  return runs.size() == 1 ? policy : fmt::format("{}: {}", which + 1, policy);
}

std::vector<picture> loss_pictures(std::span<const run_figures> runs) {
  std::vector<picture> pictures;
  for (const axis& x : axes) {
    const plotted all = losses(runs, x);
    if (!all.plots.empty())
      pictures.push_back(
          make(fmt::format("loss-{}", x.name), fmt::format("Loss against {}", x.name),
               "Each point of a training loss is the mean since the point before." + without_curve(runs), x,
               "loss", all));
  }
  if (pictures.empty())
    return {
        {"loss", "Loss against time, updates and samples", "There is no loss to draw." + why_none(runs), {}}};
  if (const plotted all = tests(runs, &curve_point::test_accuracy, &curve_point::validation_accuracy);
      !all.plots.empty())
    pictures.push_back(
        make("accuracy-time", "Accuracy against time",
             "The share of samples whose class the model names, of those it was not trained on.", axes[0],
             "accuracy [share of samples]", all));
  if (const plotted all = tests(runs, &curve_point::test_rmse, &curve_point::validation_rmse);
      !all.plots.empty())
    pictures.push_back(make("rmse-time", "Error against time",
                            "The root of the mean squared error on samples that were not trained on, in the "
                            "unit of the targets.",
                            axes[0], "RMSE [unit of the targets]", all));
  return pictures;
}

} // namespace mailgrad
