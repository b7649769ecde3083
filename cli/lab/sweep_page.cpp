#include <mailgrad/cli/lab/sweep_page.hpp>

#include <mailgrad/cli/report/html_page.hpp>
#include <mailgrad/lab/sweep/sweep_figures.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace mailgrad {

namespace {

std::string number(double x) { return std::isfinite(x) ? fmt::format("{:.4g}", x) : "-"; }

/// "0.91 (0.90 to 0.92)"; the median alone of a single run.
std::string in_words(const std::optional<lab::quartiles>& q) {
  if (!q || !std::isfinite(q->median)) return "-";
  if (q->low == q->high) return number(q->median);
  return fmt::format("{} ({} to {})", number(q->median), number(q->low), number(q->high));
}

using table = std::vector<std::vector<std::string>>;

/// A line of names, and one for each method, the best one first.
table table_of(const lab::sweep& s, std::span<const lab::sweep_summary> methods, lab::judged_figure judged) {
  std::vector<lab::sweep_summary> ranked(methods.begin(), methods.end());
  std::ranges::stable_sort(ranked, [&](const auto& a, const auto& b) { return a.better_than(b, judged); });
  const bool speeds = std::ranges::any_of(ranked, [](const auto& m) { return m.speed_up.has_value(); });
  table lines{{"method"}};
  std::vector<std::string>& names = lines.front();
  if (!s.tune.empty()) names.push_back(s.tune);
  names.insert(names.end(), {"completed", std::string(name_of(judged)), "staleness"});
  if (s.target) names.push_back("time to target [s]");
  if (speeds) names.push_back("speed-up");
  for (const lab::sweep_summary& m : ranked) {
    std::vector<std::string> line{lab::words_of(s, m, {s.tune})};
    if (!s.tune.empty()) line.push_back(m.values[*s.axis(s.tune)]);
    line.push_back(fmt::format("{} of {}", m.completed, m.cells.size()));
    line.push_back(in_words(m.judged(judged)));
    line.push_back(in_words(m.staleness_mean));
    if (s.target) line.push_back(in_words(m.time_to_target));
    if (speeds) line.push_back(m.speed_up ? number(*m.speed_up) : "-");
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string html_of(const table& lines) {
  std::string html = "<div class=\"wide\"><table>\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const char* cell = i == 0 ? "th" : "td";
    html += i == 0 ? "<thead><tr>" : "<tr>";
    for (const std::string& text : lines[i]) html += fmt::format("<{0}>{1}</{0}>", cell, as_html(text));
    html += i == 0 ? "</tr></thead>\n<tbody>\n" : "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

std::string settings_in_words(const std::vector<lab::sweep_setting>& run) {
  std::string text;
  for (const lab::sweep_setting& setting : run)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", setting.key, setting.value);
  return text;
}

/// Where the rows come from. Several machines may have worked on one sweep, one after the other.
std::string origin_in_words(std::span<const lab::sweep_row> rows) {
  std::vector<std::string> processors;
  double seconds = 0;
  for (const lab::sweep_row& row : rows) {
    seconds += row.real_seconds;
    if (std::ranges::find(processors, row.processor) == processors.end()) processors.push_back(row.processor);
  }
  std::string text = fmt::format("{} runs, {:.1f} s of computing", rows.size(), seconds);
  for (const std::string& p : processors) text += ", on " + p;
  if (!rows.empty())
    text += fmt::format(", by Mailgrad {} ({}), begun {}", rows[0].version, rows[0].commit,
                        std::ranges::min(rows, {}, &lab::sweep_row::date).date);
  return text + '.';
}

} // namespace

std::string in_words(const lab::sweep& s, std::span<const lab::sweep_summary> methods,
                     lab::judged_figure judged) {
  const table lines = table_of(s, methods, judged);
  std::vector<std::size_t> widths(lines.front().size());
  for (const auto& line : lines)
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  std::string text;
  for (const auto& line : lines) {
    for (std::size_t c = 0; c + 1 < line.size(); ++c) text += fmt::format("{:{}}  ", line[c], widths[c]);
    text += line.back() + '\n';
  }
  return text;
}

std::string page_of(const lab::sweep& s, std::span<const lab::sweep_summary> methods,
                    lab::judged_figure judged, std::span<const lab::sweep_row> rows,
                    std::span<const picture> pictures, const std::string& command) {
  std::string html = html_begin("Mailgrad: a sweep", "A sweep");
  html += fmt::format("<p>{}</p>\n", as_html(settings_in_words(s.run)));
  html +=
      fmt::format("<p class=\"note\">{} Made by: {}. Times are virtual. Numbers are medians over seeds, with "
                  "quartiles in brackets; a run that did not complete counts as the worst.</p>\n",
                  as_html(origin_in_words(rows)), as_html(command));
  html += html_of(table_of(s, methods, judged));
  for (const picture& p : pictures) html += html_figure(p);
  return html + html_end();
}

} // namespace mailgrad
