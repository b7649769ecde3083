#pragma once

#include <mailgrad/engine/account/metrics_line.hpp>
#include <mailgrad/engine/account/training_report.hpp>

#include <optional>
#include <string>

namespace mailgrad {

/// The figures of a run in progress as Prometheus reads them, text format 0.0.4. A figure that is not known
/// has no line.
std::string prometheus_text(const training_report& r, const std::optional<metrics_line>& last,
                            const std::string& model);

} // namespace mailgrad
