#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <cstdint>
#include <string>

namespace mailgrad {

/// With more workers, the summary has no line for each.
inline constexpr std::uint32_t most_workers_named = 64;

/// The lines of the staleness of all gradients, and of those of each worker.
std::string staleness_lines(const training_report& r);

/// "worker 0: cpu:0 computed 87 % of the time, cpu:1 85 %"
std::string stages_in_words(const training_report& r);

} // namespace mailgrad
