#include <mailgrad/cli/lab/experiment_page.hpp>

#include <mailgrad/cli/lab/experiment_words.hpp>
#include <mailgrad/cli/report/html_page.hpp>

#include <fmt/format.h>

namespace mailgrad {

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

} // namespace mailgrad
