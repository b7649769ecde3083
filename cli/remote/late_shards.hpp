#pragma once

#include <mailgrad/engine/account/run_member.hpp>
#include <mailgrad/engine/account/training_report.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// Shards of one process whose figures are missing in the report of a run in progress, or older than it.
struct late_shards {
  std::vector<late_figures> figures; ///< of each; all are known, or none is
  std::optional<run_member> host{};  ///< the parameter host that has them; none: the server, or unknown
};

/// By their hosts, and by whether they have told figures.
std::vector<late_shards> late_of(const training_report& so_far, const std::vector<run_member>& members);

/// A line for each, with the oldest figures: "late          the figures of shards 0, 1 are of 0.8 s ago;
/// parameter host 0, which holds them, was heard 0.8 s ago".
std::string in_words(const std::vector<late_shards>& all);

/// The same as a JSON array, with an entry for each shard.
std::string to_json(const std::vector<late_shards>& all);

} // namespace mailgrad
