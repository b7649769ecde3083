#include <mailgrad/cli/report/report_page.hpp>

#include <mailgrad/cli/report/pictures.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace mailgrad {

namespace {

constexpr std::string_view style =
    "body{font:16px/1.5 sans-serif;color:#111;background:#fff;max-width:60rem;margin:2rem auto;padding:0 "
    "1rem}"
    "h1,h2{line-height:1.2}figure{margin:1.5rem 0}figure svg{max-width:100%;height:auto}"
    "figcaption,p.note{color:#444;font-size:.9rem}div.wide{overflow-x:auto}table{border-collapse:collapse}"
    "th,td{border-bottom:1px solid #bbb;padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top;"
    "overflow-wrap:anywhere}thead th{border-bottom:2px solid "
    "#111;overflow-wrap:break-word}th[scope=row]{font-weight:normal;color:#444;"
    "white-space:nowrap}@media print{h2{break-after:avoid}figure{break-inside:avoid}}";

std::string as_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    case '\'':
      result += "&#39;";
      break;
    default:
      result += c;
    }
  }
  return result;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// A drawn picture as part of a page: without the head of a file, with names that no other picture has.
std::string inlined(const picture& p) {
  std::string svg = draw(p, picture_format::svg);
  svg.erase(0, std::min(svg.find("<svg"), svg.size()));
  svg.insert(std::min<std::size_t>(4, svg.size()),
             fmt::format(" role=\"img\" aria-label=\"{}\"", as_html(p.title)));
  replace_all(svg, "<title>Gnuplot</title>", "<title>" + as_html(p.title) + "</title>");
  for (const char* use : {"id='", "id=\"", "href='#", "url(#"}) replace_all(svg, use, use + p.name + "-");
  return svg;
}

std::string figure_of(const picture& p) {
  if (p.script.empty())
    return fmt::format("<h3>{}</h3>\n<p class=\"note\">{}</p>\n", as_html(p.title), as_html(p.caption));
  return fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", inlined(p), as_html(p.caption));
}

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
  sections[2].pictures = {worker_time_picture(runs), gradient_time_picture(runs)};
  return sections;
}

std::string page_of(std::span<const run_figures> runs, std::span<const page_section> sections) {
  std::string html =
      fmt::format("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width\">\n<title>Mailgrad: {}</title>\n"
                  "<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
                  as_html(runs.size() == 1 ? runs[0].file : std::to_string(runs.size()) + " runs"), style,
                  runs.size() == 1 ? "A run of Mailgrad" : "Runs of Mailgrad, side by side");
  html += table_of(runs);
  html += "<h2>Switches of policy</h2>\n" + switches_of(runs);
  for (const page_section& s : sections) {
    html += fmt::format("<h2>{}</h2>\n", as_html(s.title));
    for (const picture& p : s.pictures) html += figure_of(p);
  }
  html += times_table(runs);
  return html + "</body>\n</html>\n";
}

} // namespace mailgrad
