#include <mailgrad/cli/live/live_pages.hpp>

#include <string>
#include <string_view>

namespace mailgrad {

/// The bytes of the files in page/, which the build writes as sources (mailgrad_embed.cmake).
namespace embedded {
extern const std::string_view page_html;
extern const std::string_view page_css;
extern const std::string_view live_js;
extern const std::string_view pictures_js;
extern const std::string_view tables_js;
extern const std::string_view chart_js;
} // namespace embedded

void add_pages(http_routes& to) {
  const auto add = [&](const char* path, const char* type, const std::string_view& bytes) {
    to.add("GET", path, [type, &bytes](const http_request&) {
      return http_response{.type = type, .body = std::string(bytes)};
    });
  };
  constexpr const char* script = "text/javascript; charset=utf-8";
  add("/", "text/html; charset=utf-8", embedded::page_html);
  add("/page.css", "text/css; charset=utf-8", embedded::page_css);
  add("/live.js", script, embedded::live_js);
  add("/pictures.js", script, embedded::pictures_js);
  add("/tables.js", script, embedded::tables_js);
  add("/chart.js", script, embedded::chart_js);
}

} // namespace mailgrad
