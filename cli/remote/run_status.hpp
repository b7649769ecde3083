#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace mailgrad {

/// With more pairs of a shard and a worker, a status leaves out the figures of single pairs, so that it stays
/// far below what a session carries. With more workers, it leaves out those of single workers, too.
inline constexpr std::size_t most_pairs_told = 1024;
inline constexpr std::size_t most_waits_told = 64;

/// What a run tells whoever asks for its status: what its live page shows, the members of the run beside the
/// report, and the summary as text.
std::string status_of(training_report so_far, const std::vector<std::string>& waits);

/// The same in words. A run that has not begun says how many have joined.
///
/// Errors  std::runtime_error if it is no status of a run.
std::string status_in_words(const std::string& status);

} // namespace mailgrad
