#pragma once

#include <mailgrad/cli/report/report_file.hpp>

#include <span>
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

/// The live page of runs that have ended, which are shown side by side. It is one file that loads nothing,
/// runs no scripts but its own, and holds every text of a report as text.
std::string kept_page(std::span<const report_file> runs);

} // namespace mailgrad
