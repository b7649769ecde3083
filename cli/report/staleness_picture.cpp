#include <mailgrad/cli/report/axis_marks.hpp>
#include <mailgrad/cli/report/expected_staleness.hpp>
#include <mailgrad/cli/report/pictures.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mailgrad {

namespace {

constexpr std::size_t most_panels = 15;
constexpr double most_gap = 1'000; ///< beyond it no single gap can be seen

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
  return static_cast<std::uint64_t>(std::min(last, most_gap));
}

/// The shares of all gaps in per cent, as lines of a data block.
std::string shares(const gap_counts& gaps) {
  std::string data;
  for (const auto& [gap, count] : gaps)
    data += fmt::format("{} {:.6g}\n", gap, 100 * static_cast<double>(count) / total(gaps));
  return data;
}

std::string law(double p, std::uint64_t last) {
  std::string data;
  for (std::uint64_t k = 0; k <= last; ++k)
    data += fmt::format("{} {:.6g}\n", k, 100 * p * std::pow(1 - p, static_cast<double>(k)));
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
                  std::uint64_t last) {
  if (worker.gaps.empty()) return fmt::format("set title 'worker {}: no gradient'\nplot NaN notitle\n", rank);
  std::string text = fmt::format("set title \"worker {}\\nmean {:.2f}{}\"\n$gaps << EOD\n{}EOD\n", rank,
                                 mean_of(worker.gaps), mean_in_words(wanted), shares(worker.gaps));
  if (wanted.mean)
    text += fmt::format("set arrow 1 from {0:.6g}, graph 0 to {0:.6g}, graph 1 nohead front {1}\n",
                        *wanted.mean, mean_line);
  if (wanted.geometric) text += "$law << EOD\n" + law(*wanted.geometric, last) + "EOD\n";
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

double highest(std::span<const worker_figures> workers) {
  double most = 1;
  for (const worker_figures& w : workers)
    for (const auto& [gap, count] : w.gaps)
      most = std::max(most, 100 * static_cast<double>(count) / total(w.gaps));
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
  const std::size_t panels = shown.size() + 1, columns = columns_for(panels);
  const std::size_t rows = (panels + columns - 1) / columns;
  p.width = std::max(static_cast<unsigned>(columns) * 240U, 480U);
  p.height = static_cast<unsigned>(rows) * 225U + 40U;
  p.script = fmt::format(
      "set multiplot layout {},{} title {}\nset xlabel 'gap [versions]'\nset ylabel 'gradients [%]'\n"
      "set xrange [-0.6:{}]\nset yrange [0:{:.4g}]\nset boxwidth {}\nset grid y lc rgb '#cccccc'\n"
      "set key off\nset xtics nomirror\nset ytics nomirror\n",
      rows, columns, gnuplot_text(p.title), static_cast<double>(last) + 0.6, highest(shown) * 1.08,
      last > 60 ? 1.0 : 0.8);
  p.script += fmt::format("set xtics {}\nset ytics {}\n", distance_of_marks(static_cast<double>(last)),
                          distance_of_marks(highest(shown)));
  for (std::size_t rank = 0; rank < shown.size(); ++rank)
    p.script += panel(shown[rank], expected_of(run, rank), rank, last);
  p.script += "set key on\n" + legend(expected_of(run, 0)) + "unset multiplot\n";
  p.caption = "The gap of a gradient is the number of updates since its weights were read. " +
              expected_of(run, 0).in_words;
  if (run.gaps.back().first > last)
    p.caption +=
        fmt::format(" Gaps above {} are beyond the axis; the largest is {}.", last, run.gaps.back().first);
  if (shown.size() < run.workers.size())
    p.caption += fmt::format(" These are the first {} of {} workers.", shown.size(), run.workers.size());
  return p;
}

} // namespace mailgrad
