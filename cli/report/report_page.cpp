#include <mailgrad/cli/report/report_page.hpp>

#include <mailgrad/cli/report/html_page.hpp>
#include <mailgrad/cli/report/pictures.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mailgrad {

namespace {

/// The names of all facts, in the order of the first run that has them.
std::vector<std::string> rows_of(std::span<const run_figures> runs) {
  std::vector<std::string> rows;
  for (const run_figures& run : runs)
    for (const auto& [name, text] : run.facts)
      if (std::ranges::find(rows, name) == rows.end()) rows.push_back(name);
  return rows;
}

std::string table_of(std::span<const run_figures> runs) {
  std::string html = "<div class=\"wide\"><table>\n<thead><tr><th></th>";
  for (std::size_t i = 0; i < runs.size(); ++i)
    html += fmt::format("<th scope=\"col\">{}</th>", as_html(label_of(runs, i)));
  html += "</tr></thead>\n<tbody>\n";
  for (const std::string& row : rows_of(runs)) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", as_html(row));
    for (const run_figures& run : runs) {
      const auto found = std::ranges::find(run.facts, row, [](const auto& fact) { return fact.first; });
      html += fmt::format("<td>{}</td>", found == run.facts.end() ? "" : as_html(found->second));
    }
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

std::string switches_of(std::span<const run_figures> runs) {
  std::string rows;
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (const switch_figures& s : runs[i].switches)
      rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                          as_html(label_of(runs, i)), s.step, as_html(s.from), as_html(s.to), as_html(s.why));
  if (rows.empty()) return "<p class=\"note\">The policy never changed in mid-run.</p>\n";
  return "<div "
         "class=\"wide\"><table>\n<thead><tr><th>run</th><th>step</th><th>from</th><th>to</th><th>why</th></"
         "tr></thead>\n"
         "<tbody>\n" +
         rows + "</tbody>\n</table></div>\n";
}

std::string times_table(std::span<const run_figures> runs) {
  const std::vector<worker_times> all = times_of_workers(runs);
  if (all.empty()) return {};
  std::string html = "<div class=\"wide\"><table>\n<thead><tr><th>run</th><th>worker</th>";
  for (const char* part : worker_time_parts) html += fmt::format("<th>{} [%]</th>", part);
  html += "</tr></thead>\n<tbody>\n";
  for (const worker_times& t : all) {
    html += fmt::format("<tr><td>{}</td><td>{}</td>", as_html(label_of(runs, t.run)), t.worker);
    for (const double share : t.shares) html += fmt::format("<td>{:.2f}</td>", share);
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

} // namespace

std::vector<page_section> sections_of(std::span<const run_figures> runs) {
  std::vector<page_section> sections{{"Loss", loss_pictures(runs)}, {"Staleness", {}}, {"Time", {}}};
  for (std::size_t i = 0; i < runs.size(); ++i) sections[1].pictures.push_back(staleness_picture(runs, i));
  for (picture& p : sample_pictures(runs)) sections[1].pictures.push_back(std::move(p));
  sections[2].pictures = {worker_time_picture(runs), gradient_time_picture(runs)};
  return sections;
}

std::string page_of(std::span<const run_figures> runs, std::span<const page_section> sections) {
  std::string html =
      html_begin("Mailgrad: " + (runs.size() == 1 ? runs[0].file : std::to_string(runs.size()) + " runs"),
                 runs.size() == 1 ? "A run of Mailgrad" : "Runs of Mailgrad, side by side");
  html += table_of(runs);
  html += "<h2>Switches of policy</h2>\n" + switches_of(runs);
  for (const page_section& s : sections) {
    html += fmt::format("<h2>{}</h2>\n", as_html(s.title));
    for (const picture& p : s.pictures) html += html_figure(p);
  }
  html += times_table(runs);
  return html + html_end();
}

} // namespace mailgrad
