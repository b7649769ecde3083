#include <mailgrad/cli/report/html_page.hpp>

#include <fmt/format.h>

#include <algorithm>

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

} // namespace

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

std::string html_figure(const picture& p) {
  if (p.script.empty())
    return fmt::format("<h3>{}</h3>\n<p class=\"note\">{}</p>\n", as_html(p.title), as_html(p.caption));
  return fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", inlined(p), as_html(p.caption));
}

std::string html_begin(std::string_view title, std::string_view heading) {
  return fmt::format("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n"
                     "<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
                     as_html(title), style, as_html(heading));
}

std::string html_end() { return "</body>\n</html>\n"; }

} // namespace mailgrad
