#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/interrupt.hpp>
#include <mailgrad/cli/lab/experiment_pictures.hpp>
#include <mailgrad/cli/lab/lab_experiment.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/report/html_page.hpp>
#include <mailgrad/data/open.hpp>
#include <mailgrad/engine/account/time_source.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

/// A measured or an expected number, with as many digits as somebody compares.
std::string number_in_words(double number) {
  return std::isnan(number) ? "-" : fmt::format("{:.4g}", number);
}

/// "1.00 +- 0.02", "at most 3", as the column of what is expected has it.
std::string expectation_in_words(const lab::claim& c) {
  const std::string number = number_in_words(c.expected);
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

} // namespace

std::string in_words(const lab::experiment_result& r, double seconds) {
  std::size_t width = std::string_view("claim").size();
  for (const lab::claim& c : r.claims) width = std::max(width, c.name.size());
  std::string text = fmt::format("{:{}}  {:>10}  {:>10}  {:>9}  {:>5}  {:>9}  \n", "claim", width, "expected",
                                 "measured", "spread", "seeds", "tolerance");
  for (const lab::claim& c : r.claims)
    text += fmt::format("{:{}}  {:>10}  {:>10}  {:>9}  {:>5}  {:>9}  {}{}\n", c.name, width,
                        expectation_in_words(c), number_in_words(c.measured),
                        number_in_words(c.spread.deviation), c.spread.seeds, number_in_words(c.tolerance),
                        c.holds() ? "holds" : "FAILS", c.unit.empty() ? "" : "  [" + c.unit + "]");
  const auto held = std::ranges::count_if(r.claims, &lab::claim::holds);
  return text + fmt::format("{} of {} claims hold ({:.1f} s)\n", held, r.claims.size(), seconds);
}

std::string introduction(const lab::experiment& e) {
  return fmt::format("{}: {}\npaper: {}\n\n", e.name, e.claim, e.paper);
}

std::string list_of_experiments() {
  std::string text;
  std::size_t width = 0;
  for (const lab::experiment& e : lab::experiments()) width = std::max(width, e.name.size());
  for (const lab::experiment& e : lab::experiments())
    text += fmt::format("{:{}}  {}\n", e.name, width, e.claim);
  return text;
}

namespace {

std::string table_of(const lab::experiment_result& r) {
  std::string html = "<div class=\"wide\"><table>\n<thead><tr>";
  for (const char* column : {"claim", "unit", "expected", "from", "measured", "standard deviation over seeds",
                             "seeds", "tolerance", "judgement"})
    html += fmt::format("<th>{}</th>", column);
  html += "</tr></thead>\n<tbody>\n";
  for (const lab::claim& c : r.claims)
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
                        "<td>{}</td><td>{}</td></tr>\n",
                        as_html(c.name), as_html(c.unit), as_html(expectation_in_words(c)),
                        as_html(c.expected_from), number_in_words(c.measured),
                        number_in_words(c.spread.deviation), c.spread.seeds, number_in_words(c.tolerance),
                        c.holds() ? "holds" : "<b>fails</b>");
  return html + "</tbody>\n</table></div>\n";
}

} // namespace

std::string page_of(const lab::experiment& e, const lab::experiment_result& r,
                    std::span<const picture> pictures) {
  std::string html = html_begin("Mailgrad: " + std::string(e.name), e.name);
  html += fmt::format("<p>{}</p>\n<p class=\"note\">{}</p>\n", as_html(e.claim), as_html(e.paper));
  html += table_of(r);
  for (const picture& p : pictures) html += html_figure(p);
  return html + html_end();
}

namespace {

void require_folder(const std::string& folder) {
  std::error_code why;
  std::filesystem::create_directories(folder, why);
  if (!std::filesystem::is_directory(folder))
    throw std::invalid_argument(fmt::format("--output: '{}' is no folder, and none can be made: {}", folder,
                                            why ? why.message() : "there is a file of that name"));
}

/// The command that makes the same numbers again.
std::string command_of(const lab::experiment& e, const experiment_words& w) {
  return fmt::format("mailgrad lab {}{}{}{} --output DIR", e.name, w.quick ? " --quick" : "",
                     w.data.empty() ? "" : fmt::format(" --data {}", w.data),
                     w.seed == 1 ? "" : fmt::format(" --seed {}", w.seed));
}

/// Writes the page and its pictures.
///
/// Errors  std::runtime_error if gnuplot cannot draw them.
void write_pictures(const std::filesystem::path& folder, const lab::experiment& e, const experiment_words& w,
                    const lab::experiment_result& r) {
  std::vector<picture> pictures;
  for (const lab::figure& f : r.figures) pictures.push_back(picture_of(f, command_of(e, w)));
  write_result(folder / fmt::format("{}.html", e.name), page_of(e, r, pictures));
  write_drawn(folder, fmt::format("{}-", e.name), pictures);
}

/// A picture that cannot be drawn makes no difference to what was found.
void write_results(const lab::experiment& e, const experiment_words& w, const lab::experiment_result& r) {
  const std::filesystem::path folder(w.output);
  write_result(folder / fmt::format("{}-claims.csv", e.name), lab::claims_csv(e.name, r));
  write_result(folder / fmt::format("{}.csv", e.name), lab::points_csv(e.name, r));
  try {
    write_pictures(folder, e, w, r);
  } catch (const std::runtime_error& why) {
    say_failure(fmt::format("the tables are written, the page and its pictures are not: {}", why.what()));
  }
}

/// Writes the claims that were finished when an experiment was stopped, in a file of their own: they are no
/// result, and must not take the place of one.
void write_finished(const lab::experiment& e, const experiment_words& w, const lab::experiment_result& r) {
  if (r.claims.empty()) return;
  write_result(std::filesystem::path(w.output) / fmt::format("{}-claims-finished.csv", e.name),
               lab::claims_csv(e.name, r));
}

} // namespace

int run_experiment(const lab::experiment& e, const experiment_words& w) {
  if (!w.output.empty()) require_folder(w.output);
  std::shared_ptr<const data_split> data;
  if (!w.data.empty()) data = std::make_shared<const data_split>(open_data(w.data, {}));
  const interrupt ctrl_c;
  const machine_time time;
  const instant begun = time.now();
  lab::experiment_result result;
  if (!w.quiet) std::cout << introduction(e) << std::flush;
  bool stopped = false;
  try {
    e.run({w.quick, w.seed, [&] { return ctrl_c.requested(); }, data}, result);
  } catch (const lab::experiment_stopped& why) {
    stopped = true;
    say_failure(fmt::format("lab {}: {}; these claims were finished", e.name, why.what()));
  }
  std::cout << in_words(result, in_seconds(time.now() - begun));
  if (stopped) {
    if (!w.output.empty()) write_finished(e, w, result);
    std::cout << "It was stopped before its other claims.\n";
    return exit_code::of_signal(ctrl_c.signal());
  }
  if (!w.output.empty()) write_results(e, w, result);
  return result.holds() ? exit_code::done : exit_code::failed;
}

} // namespace mailgrad
