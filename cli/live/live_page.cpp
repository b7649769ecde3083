#include <mailgrad/cli/live/live_page.hpp>
#include <mailgrad/cli/live/live_state.hpp>
#include <mailgrad/cli/report/html_page.hpp>
#include <mailgrad/cli/report/pictures.hpp>
#include <mailgrad/engine/account/figures.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <stdexcept>

namespace mailgrad {

namespace {

using nlohmann::ordered_json;

/// What a server tells of such a run at its end. What an older report lacks is empty.
ordered_json told_of(std::span<const report_file> runs, std::size_t which) {
  const report_file& run = runs[which];
  ordered_json report = object_of(figures_of(training_report{}));
  report.update(run.fields);
  report.erase("curve");
  ordered_json curve = ordered_json::array();
  for (const metrics_line& line : run.report.curve) curve.push_back(object_of(figures_of(line)));
  return {{"label", label_of(runs, which)},
          {"file", run.path},
          {"model", run.report.model},
          {"curve", std::move(curve)},
          {"state", state_of(run.report, run.report.policy, std::move(report), {})}};
}

/// No text of a report ends the script that holds it.
std::string in_script(const ordered_json& x) {
  std::string text;
  for (const char c : x.dump(-1, ' ', true, ordered_json::error_handler_t::replace))
    c == '<' ? text += "\\u003c" : text += c;
  return text;
}

/// Puts `by` in the place of a part that the page has.
void replace(std::string& page, std::string_view part, const std::string& by) {
  const std::size_t at = page.find(part);
  if (at == std::string::npos) throw std::logic_error("the page has no " + std::string(part));
  page.replace(at, part.size(), by);
}

} // namespace

std::string kept_page(std::span<const report_file> runs) {
  ordered_json told{{"loss_words", loss_in_words(runs)}, {"runs", ordered_json::array()}};
  for (std::size_t i = 0; i < runs.size(); ++i) told["runs"].push_back(told_of(runs, i));
  std::string scripts =
      "<script type=\"application/json\" id=\"kept-runs\">" + in_script(told) + "</script>\n";
  std::string page(embedded::page_html);
  for (const auto& [name, script] : {std::pair("chart", &embedded::chart_js),
                                     {"pictures", &embedded::pictures_js},
                                     {"tables", &embedded::tables_js},
                                     {"live", &embedded::live_js}}) {
    replace(page, "<script src=\"/" + std::string(name) + ".js\" defer></script>\n", "");
    scripts += "<script>" + std::string(*script) + "</script>\n";
  }
  const std::string title = runs.size() == 1 ? runs[0].path : std::to_string(runs.size()) + " runs";
  replace(page, "<html lang=\"en\">", "<html lang=\"en\" class=\"kept\">");
  replace(page, "<title>Mailgrad</title>",
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
          "'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action "
          "'none'\">\n<title>Mailgrad: " +
              as_html(title) + "</title>");
  replace(page, "<link rel=\"stylesheet\" href=\"/page.css\">",
          "<style>\n" + std::string(embedded::page_css) + "</style>");
  replace(page, "</body>", scripts + "</body>");
  return page;
}

} // namespace mailgrad
