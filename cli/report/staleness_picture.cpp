#include <mailgrad/cli/report/axis_marks.hpp>
#include <mailgrad/cli/report/expected_staleness.hpp>
#include <mailgrad/cli/report/pictures.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace mailgrad {

namespace {

constexpr std::size_t most_panels = 15;
constexpr std::uint64_t most_boxes = 1'000; ///< of more none can be seen

double total(const gap_counts& gaps) {
  double sum = 0;
  for (const auto& [gap, count] : gaps) sum += static_cast<double>(count);
  return sum;
}

/// The last gap that is shown: of a long tail a hundredth is left out, and the mean that is expected is not.
std::uint64_t last_shown(const run_figures& run, std::size_t workers) {
  double last = 3;
  double left = total(run.gaps) * 0.99;
  for (const auto& [gap, count] : run.gaps) {
    if (left <= 0) break;
    left -= static_cast<double>(count);
    last = std::max(last, static_cast<double>(gap));
  }
  for (std::size_t rank = 0; rank < workers; ++rank)
    last = std::max(last, std::ceil(expected_of(run, rank).mean.value_or(0)));
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
std::map<std::uint64_t, double> shares(const gap_counts& gaps, const gap_axis& axis) {
  std::map<std::uint64_t, double> all;
  for (const auto& [gap, count] : gaps)
    all[axis.box_of(gap)] += 100 * static_cast<double>(count) / total(gaps);
  return all;
}

/// The same as lines of a data block.
std::string share_lines(const gap_counts& gaps, const gap_axis& axis) {
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

double mean_of(const gap_counts& gaps) {
  double sum = 0;
  for (const auto& [gap, count] : gaps) sum += static_cast<double>(gap) * static_cast<double>(count);
  return gaps.empty() ? 0 : sum / total(gaps);
}

constexpr const char* measured = "with boxes fs solid 1.0 border lc rgb '#000000' lc rgb '#a6c8e4'";
constexpr const char* expected = "with linespoints lw 1.5 pt 6 ps 0.8 lc rgb '#000000'";
constexpr const char* mean_line = "lw 2.5 dt 2 lc rgb '#d55e00'";

std::string mean_in_words(const expected_staleness& wanted) {
  if (!wanted.mean) return {};
  return fmt::format(", {} {:.2f}", wanted.at_most ? "at most" : "expected", *wanted.mean);
}

std::string panel(const worker_figures& worker, const expected_staleness& wanted, std::size_t rank,
                  const gap_axis& axis) {
  if (worker.gaps.empty()) return fmt::format("set title 'worker {}: no gradient'\nplot NaN notitle\n", rank);
  std::string text = fmt::format("set title \"worker {}\\nmean {:.2f}{}\"\n$gaps << EOD\n{}EOD\n", rank,
                                 mean_of(worker.gaps), mean_in_words(wanted), share_lines(worker.gaps, axis));
  if (wanted.mean)
    text += fmt::format("set arrow 1 from {0:.6g}, graph 0 to {0:.6g}, graph 1 nohead front {1}\n",
                        *wanted.mean, mean_line);
  if (wanted.geometric) text += "$law << EOD\n" + law(*wanted.geometric, axis) + "EOD\n";
  text += fmt::format("plot $gaps using 1:2 {} notitle{}\nunset arrow\n", measured,
                      wanted.geometric ? fmt::format(", $law using 1:2 {} notitle", expected) : "");
  return text;
}

/// The last panel says what is what.
std::string legend(const expected_staleness& wanted) {
  std::string plots = fmt::format("NaN {} title 'measured'", measured);
  if (wanted.geometric) plots += fmt::format(", NaN {} title 'law of random steps'", expected);
  if (wanted.mean)
    plots += fmt::format(", NaN with lines {} title '{}'", mean_line,
                         wanted.at_most ? "bound of the mean" : "mean expected");
  return "unset title\nunset border\nunset tics\nunset xlabel\nunset ylabel\nunset grid\nset key center "
         "center Left "
         "reverse samplen 2\nplot [0:1] [0:1] " +
         plots + '\n';
}

/// One row for a few; else as many columns as rows, or one more.
std::size_t columns_for(std::size_t panels) {
  if (panels <= 4) return panels;
  std::size_t columns = 1;
  while (columns * columns < panels) ++columns;
  return columns;
}

double highest(std::span<const worker_figures> workers, const gap_axis& axis) {
  double most = 1;
  for (const worker_figures& w : workers)
    for (const auto& [box, share] : shares(w.gaps, axis)) most = std::max(most, share);
  return most;
}

} // namespace

picture staleness_picture(std::span<const run_figures> runs, std::size_t which) {
  const run_figures& run = runs[which];
  picture p{fmt::format("staleness-{}", which + 1), "Staleness under " + label_of(runs, which), {}, {}};
  if (run.gaps.empty()) {
    p.caption = "No gradient was applied or merged, so there is no staleness to show.";
    return p;
  }
  const std::span<const worker_figures> shown =
      std::span(run.workers).first(std::min(run.workers.size(), most_panels));
  const std::uint64_t last = last_shown(run, shown.size());
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
    p.script += panel(shown[rank], expected_of(run, rank), rank, axis);
  p.script += "set key on\n" + legend(expected_of(run, 0)) + "unset multiplot\n";
  p.caption = "The gap of a gradient is the number of updates since its weights were read. " +
              expected_of(run, 0).in_words;
  if (axis.width > 1) p.caption += fmt::format(" A box stands for {} gaps.", axis.width);
  if (run.gaps.back().first > last)
    p.caption +=
        fmt::format(" Gaps above {} are beyond the axis; the largest is {}.", last, run.gaps.back().first);
  if (shown.size() < run.workers.size())
    p.caption += fmt::format(" These are the first {} of {} workers.", shown.size(), run.workers.size());
  return p;
}

} // namespace mailgrad
