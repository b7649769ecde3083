#pragma once

#include <mailgrad/cli/report/report_file.hpp>
#include <mailgrad/engine/account/metrics_line.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace mailgrad {

/// The figures of a run in progress as Prometheus reads them, text format 0.0.4. A figure that is not known
/// has no line.
std::string prometheus_text(const training_report& r, const std::optional<metrics_line>& last,
                            const std::string& model);

/// What the live page is told, each as one JSON object without a line feed.

/// The report so far without its curve, what is expected of each worker's staleness (of more than 1,024, the
/// first 64), how many gradients are under way (null while no shard has told its part), whose figures are
/// late, and what actors wait for.
std::string state_event(training_report r, const std::vector<std::string>& waits);

/// What a viewer is told first.
struct live_beginning {
  std::string model;
  std::uint64_t total_steps = 0; ///< of the whole run
  std::vector<metrics_line> curve{};
  std::string state{}; ///< the last state_event(); empty if there is none yet
  std::string key{};   ///< with which the page may change the run; empty: it may not
  bool keeps_checkpoints = false;
};
std::string begin_event(const live_beginning& x);

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
