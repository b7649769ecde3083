#include <mailgrad/cli/lab/lab_commands.hpp>

#include <mailgrad/cli/exit_code.hpp>

#include <cmath>
#include <iostream>
#include <ranges>
#include <system_error>

namespace mailgrad {

namespace {

struct experiment_args {
  bool quick = false;
  std::uint64_t seed = 1;
  std::string data;   ///< to train on; empty: the experiment's own
  std::string output; ///< the folder for tables, pictures and the page; empty: none are written
  bool quiet = false; ///< without the introduction
};

struct series_style {
  const char* colour; ///< of Okabe & Ito's palette, which the colour-blind can tell apart
  int dashes, marker; ///< as gnuplot numbers them; those of two series differ in grey, too
};

constexpr std::array<series_style, 6> line_styles{{{"#000000", 1, 7},
                                                   {"#d55e00", 2, 4},
                                                   {"#0072b2", 4, 9},
                                                   {"#009e73", 3, 2},
                                                   {"#cc79a7", 5, 13},
                                                   {"#777777", 1, 1}}};

/// Where the bar through a point begins and ends; at the point, if it has none.
std::pair<double, double> bar_of(const lab::figure_point& p) {
  if (std::isfinite(p.low) && std::isfinite(p.high)) return {p.low, p.high};
  const double spread = std::isfinite(p.spread) ? p.spread : 0;
  return {p.y - spread, p.y + spread};
}

bool has_bars(const lab::figure_series& s) {
  for (const lab::figure_point& p : s.points)
    if (const auto [low, high] = bar_of(p); low < high) return true;
  return false;
}

/// Where the points of each series are drawn. Those of several series with bars would hide each other at one
/// value of x, so they stand side by side.
class drawn_places {
public:
  explicit drawn_places(const lab::figure& f) : linear_(f.x.scale == lab::axis_scale::linear) {
    for (const lab::figure_series& s : f.series) {
      ranks_.push_back(with_bars_);
      with_bars_ += has_bars(s) ? 1 : 0;
      for (const lab::figure_point& p : s.points) {
        if (!linear_ && p.x <= 0) continue; // such an axis does not show it
        least_ = std::min(least_, scaled(p.x));
        most_ = std::max(most_, scaled(p.x));
      }
    }
  }

  bool any_moved() const { return with_bars_ > 1 && most_ > least_; }
  double of(const lab::figure_series& s, std::size_t which, double x) const {
    constexpr double between = 0.012; // of the axis
    if (!any_moved() || !has_bars(s)) return x;
    const double at = scaled(x) + between * (most_ - least_) * (ranks_[which] - (with_bars_ - 1) / 2);
    return linear_ ? at : std::exp(at);
  }

private:
  double scaled(double x) const { return linear_ ? x : std::log(x); }

  bool linear_;
  std::vector<double> ranks_; ///< of each series among those with bars
  double with_bars_ = 0;
  double least_ = std::numeric_limits<double>::infinity(), most_ = -least_;
};

constexpr double half_height = 0.28; ///< of a box

/// Middle, row, and the four sides of each box.
std::string boxes_of(const lab::figure_series& s) {
  std::string rows;
  for (std::size_t i = 0; i + 1 < s.points.size(); i += 3) {
    const double from = s.points[i].x, to = s.points[i + 1].x, y = s.points[i].y;
    rows += fmt::format("{:.9g} {} {:.9g} {:.9g} {} {}\n", (from + to) / 2, y, from, to, y - half_height,
                        y + half_height);
  }
  return rows;
}

std::string data_of(const lab::figure_series& s, std::size_t which, const drawn_places& places) {
  std::string data = fmt::format("$s{} << EOD\n", which);
  if (s.look == lab::series_look::bars) return data + boxes_of(s) + "EOD\n";
  for (const lab::figure_point& p : s.points)
    data += !std::isfinite(p.y) ? "\n"
                                : fmt::format("{:.9g} {:.9g} {:.9g} {:.9g}\n", places.of(s, which, p.x), p.y,
                                              bar_of(p).first, bar_of(p).second);
  return data + "EOD\n";
}

std::string plot_of(const lab::figure_series& s, std::size_t which) {
  const series_style& style = line_styles[which % line_styles.size()];
  const std::string title = gnuplot_text(s.name);
  if (s.look == lab::series_look::line)
    return fmt::format("$s{} using 1:2 with lines lc rgb '{}' lw 2 dt {} title {}", which, style.colour,
                       style.dashes, title);
  if (s.look == lab::series_look::bars)
    return fmt::format(
        "$s{} using 1:2:3:4:5:6 with boxxyerror fc rgb '#dddddd' fs solid border lc rgb '{}' title {}", which,
        style.colour, title);
  if (s.look == lab::series_look::joined)
    return fmt::format("$s{} using {} lc rgb '{}' lw 1.5 dt {} pt {} ps 0.9 title {}", which,
                       has_bars(s) ? "1:2:3:4 with yerrorlines" : "1:2 with linespoints", style.colour,
                       style.dashes, style.marker, title);
  return fmt::format("$s{} using {} lc rgb '{}' pt {} ps 0.9 title {}", which,
                     has_bars(s) ? "1:2:3:4 with yerrorbars" : "1:2 with points", style.colour, style.marker,
                     title);
}

/// The names of 1, 2, ... instead of numbers.
std::string marks_of(char axis, const lab::figure_axis& a) {
  std::string marks;
  for (std::size_t i = 0; i < a.marks.size(); ++i)
    marks += fmt::format("{}{} {}", i == 0 ? "" : ", ", gnuplot_text(a.marks[i]), i + 1);
  return marks.empty() ? "" : fmt::format("set {}tics ({})\n", axis, marks);
}

/// Marks at 1, 2 and 5 times powers of ten, where an axis of powers has few of these.
std::string marks_between(char axis, double least, double most) {
  if (most > 300 * least) return {};
  std::string marks;
  for (double power = std::pow(10, std::floor(std::log10(least))); power < most; power *= 10)
    for (const double times : {1, 2, 5})
      if (power * times >= least && power * times <= most)
        marks += fmt::format("{}{:.6g}", marks.empty() ? "" : ",", power * times);
  return fmt::format("set {}tics ({})\n", axis, marks);
}

/// The range of an axis: all that is drawn, and a twentieth of it on either side. Gnuplot itself would extend
/// an axis of powers to the next one.
std::string range_of(char axis, const lab::figure& f, const lab::figure_axis& a) {
  const bool linear = a.scale == lab::axis_scale::linear;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const lab::figure_series& s : f.series)
    for (const lab::figure_point& p : s.points) {
      if (!std::isfinite(p.y)) continue;
      const double at = axis == 'x' ? p.x : p.y;
      if (!linear && at <= 0) continue;
      const auto [low, high] =
          axis == 'x' || (!linear && bar_of(p).first <= 0) ? std::pair(at, at) : bar_of(p);
      const double box = axis == 'y' && s.look == lab::series_look::bars ? half_height : 0;
      least = std::min(least, linear ? low - box : std::log(low));
      most = std::max(most, linear ? high + box : std::log(high));
    }
  const double room = most > least ? (most - least) / 20 : 0.5;
  if (!std::isfinite(least)) return {};
  const auto shown = [&](double edge) { return linear ? edge : std::exp(edge); };
  const double from = shown(least - room), to = shown(most + room);
  const std::string marks =
      a.scale == lab::axis_scale::logarithmic ? marks_between(axis, from, to) : std::string();
  return fmt::format("set {}range [{:.6g}:{:.6g}]\n", axis, from, to) + marks;
}

std::string axis_words(char axis, const lab::figure& f, const lab::figure_axis& a) {
  std::string words = fmt::format("set {}label {}\n", axis, gnuplot_text(a.label));
  if (a.scale != lab::axis_scale::linear)
    words += fmt::format("set logscale {0} {1}\nset format {0} '%.10g'\n", axis,
                         a.scale == lab::axis_scale::doubling ? 2 : 10);
  return words + marks_of(axis, a) + range_of(axis, f, a);
}

std::string format_number(double number) { return std::isnan(number) ? "-" : fmt::format("{:.4g}", number); }

/// "1.00 +- 0.02", "at most 3", as the column of what is expected has it.
std::string format_expectation(const lab::claim& c) {
  const std::string number = format_number(c.expected);
  switch (c.how) {
  case lab::relation::at_most:
    return "<= " + number;
  case lab::relation::at_least:
    return ">= " + number;
  case lab::relation::equals:
    break;
  }
  return number;
}

std::string in_words(const lab::experiment_result& r, double seconds) {
  std::size_t width = std::string_view("claim").size();
  for (const lab::claim& c : r.claims) width = std::max(width, c.name.size());
  std::string text = fmt::format("{:{}}  {:>10}  {:>10}  {:>9}  {:>5}  {:>9}  \n", "claim", width, "expected",
                                 "measured", "spread", "seeds", "tolerance");
  for (const lab::claim& c : r.claims)
    text += fmt::format("{:{}}  {:>10}  {:>10}  {:>9}  {:>5}  {:>9}  {}{}\n", c.name, width,
                        format_expectation(c), format_number(c.measured), format_number(c.spread.deviation),
                        c.spread.seeds, format_number(c.tolerance), c.holds() ? "holds" : "FAILS",
                        c.unit.empty() ? "" : "  [" + c.unit + "]");
  const auto held = std::ranges::count_if(r.claims, &lab::claim::holds);
  return text + fmt::format("{} of {} claims hold ({:.1f} s)\n", held, r.claims.size(), seconds);
}

std::string table_of(const lab::experiment_result& r) {
  std::string html = "<div class=\"wide\"><table>\n<thead><tr>";
  for (const char* column : {"claim", "unit", "expected", "from", "measured", "standard deviation over seeds",
                             "seeds", "tolerance", "judgement"})
    html += fmt::format("<th>{}</th>", column);
  html += "</tr></thead>\n<tbody>\n";
  for (const lab::claim& c : r.claims)
    html +=
        fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</"
                    "td><td>{}</td><td>{}</td></tr>\n",
                    as_html(c.name), as_html(c.unit), as_html(format_expectation(c)),
                    as_html(c.expected_from), format_number(c.measured), format_number(c.spread.deviation),
                    c.spread.seeds, format_number(c.tolerance), c.holds() ? "holds" : "<b>fails</b>");
  return html + "</tbody>\n</table></div>\n";
}

std::string page_of(const lab::experiment& e, const lab::experiment_result& r,
                    std::span<const picture> pictures) {
  std::string html = html_begin("Mailgrad: " + std::string(e.name), e.name);
  html += fmt::format("<p>{}</p>\n<p class=\"note\">{}</p>\n", as_html(e.claim), as_html(e.paper));
  html += table_of(r);
  for (const picture& p : pictures) html += html_figure(p);
  return html + html_end();
}

void require_folder(const std::string& folder) {
  std::error_code why;
  std::filesystem::create_directories(folder, why);
  if (!std::filesystem::is_directory(folder))
    reject("--output: '{}' is no folder, and none can be made: {}", folder,
           why ? why.message() : "there is a file of that name");
}

std::string command_of(const lab::experiment& e, const experiment_args& w) {
  return fmt::format("mailgrad lab {}{}{}{} --output DIR", e.name, w.quick ? " --quick" : "",
                     w.data.empty() ? "" : fmt::format(" --data {}", w.data),
                     w.seed == 1 ? "" : fmt::format(" --seed {}", w.seed));
}

void write_results(const lab::experiment& e, const experiment_args& w, const lab::experiment_result& r) {
  const std::filesystem::path folder(w.output);
  write_result(folder / fmt::format("{}-claims.csv", e.name), lab::claims_csv(e.name, r));
  write_result(folder / fmt::format("{}.csv", e.name), lab::points_csv(e.name, r));
  write_if_drawn([&] {
    std::vector<picture> pictures;
    for (const lab::figure& f : r.figures) pictures.push_back(picture_of(f, command_of(e, w)));
    write_result(folder / fmt::format("{}.html", e.name), page_of(e, r, pictures));
    write_drawn(folder, fmt::format("{}-", e.name), pictures);
  });
}

int run_experiment(const lab::experiment& e, const experiment_args& w) {
  if (!w.output.empty()) require_folder(w.output);
  std::shared_ptr<const data_split> data;
  if (!w.data.empty()) data = std::make_shared<const data_split>(open_data(w.data, {}));
  const interrupt ctrl_c;
  const machine_time time;
  const instant begun = time.now();
  lab::experiment_result result;
  if (!w.quiet) std::cout << fmt::format("{}: {}\npaper: {}\n\n", e.name, e.claim, e.paper) << std::flush;
  bool stopped = false;
  try {
    e.run({w.quick, w.seed, [&] { return ctrl_c.requested(); }, data}, result);
  } catch (const lab::experiment_stopped& why) {
    stopped = true;
    say_failure(fmt::format("lab {}: {}; these claims were finished", e.name, why.what()));
  }
  std::cout << in_words(result, in_seconds(time.now() - begun));
  if (stopped) {
    // Those that were finished go into a file of their own: they are no result, and replace none.
    if (!w.output.empty() && !result.claims.empty())
      write_result(std::filesystem::path(w.output) / fmt::format("{}-claims-finished.csv", e.name),
                   lab::claims_csv(e.name, result));
    std::cout << "It was stopped before its other claims.\n";
    return exit_code::of_signal(ctrl_c.signal());
  }
  if (!w.output.empty()) write_results(e, w, result);
  return result.holds() ? exit_code::done : exit_code::failed;
}

} // namespace

picture picture_of(const lab::figure& f, const std::string& command) {
  const drawn_places places(f);
  picture p{f.name,
            f.title,
            fmt::format("{}{} Made by: {}", f.caption,
                        places.any_moved() ? " Points of one place are drawn side by side." : "", command),
            {}};
  std::string plots;
  for (std::size_t i = 0; i < f.series.size(); ++i) {
    if (f.series[i].points.empty()) continue;
    p.script += data_of(f.series[i], i, places);
    plots += (plots.empty() ? "" : ", ") + plot_of(f.series[i], i);
  }
  p.script += fmt::format("set title {}\nset grid lc rgb '#cccccc'\nset key outside right top Left reverse\n"
                          "{}{}plot {}\n",
                          gnuplot_text(f.title), axis_words('x', f, f.x), axis_words('y', f, f.y), plots);
  p.width = 900;
  if (plots.empty()) p.script.clear();
  return p;
}

void write_result(const std::filesystem::path& file, const std::string& content) {
  output_file("result", file.string()).write([&](std::ostream& out) { out << content; });
}

void write_drawn(const std::filesystem::path& folder, const std::string& prefix,
                 std::span<const picture> pictures) {
  for (const picture& p : pictures) {
    if (p.script.empty()) continue;
    write_result(folder / (prefix + p.name + ".svg"), draw(p, picture_format::svg));
    write_result(folder / (prefix + p.name + ".png"), draw(p, picture_format::png));
  }
}

void write_if_drawn(const std::function<void()>& draw_all) try {
  draw_all();
} catch (const std::runtime_error& why) {
  say_failure(fmt::format("the tables are written, the page and its pictures are not: {}", why.what()));
}

command make_lab_experiment(CLI::App& parent, const lab::experiment& e) {
  CLI::App* one = parent.add_subcommand(std::string(e.name), std::string(e.claim));
  one->group("Experiments");
  const auto words = std::make_shared<experiment_args>();
  experiment_args& w = *words;
  option_table t(*one);
  t.add("--quick", w.quick, overridable, "In at most 15 seconds, with fewer seeds and wider tolerances");
  t.add("--seed", w.seed, whole_number(0), "The first of the seeds");
  if (e.takes_data)
    t.add("--data", w.data, value_name("NAME"),
          "Train on this data set of classes, a name, a folder or a file, and not on samples that are drawn "
          "by chance; then the speeds are compared, too");
  t.add("--output", w.output, path("DIR"),
        "Write tables (CSV), pictures (SVG and PNG) and one HTML page into this folder");
  t.add("--quiet", w.quiet, "Print the claims alone, without what the experiment is about");
  one->footer("Paper: " + std::string(e.paper) +
              "\nExit codes: 0 all claims hold, 1 some fail. The program gnuplot draws the pictures.");
  return {one, [words, &e] { return run_experiment(e, *words); }};
}

int list_experiments() {
  const auto name_size = [](const lab::experiment& e) { return e.name.size(); };
  const std::size_t width = std::ranges::max(lab::experiments() | std::views::transform(name_size));
  for (const lab::experiment& e : lab::experiments())
    std::cout << fmt::format("{:{}}  {}\n", e.name, width, e.claim);
  return exit_code::done;
}

} // namespace mailgrad
