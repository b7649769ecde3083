#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace mailgrad {

/// The members of a run as a table, from the JSON that to_json() makes of them: one line that counts them, a
/// line of headings, and one line each. Empty if there are none.
///
///     members  2 workers joined, 1 lost; 1 parameter host joined
///       member            state   since       heard      address          incarnation  devices
///       worker 0          joined  4 min ago   0.1 s ago  10.0.0.3:51234   1            cpu:0
///       worker 1          lost    12.0 s ago  13.5 s ago 10.0.0.4:40010   2            cpu:0    expected a sign ...
///
/// The state of one that was lost and has joined again is "back".
/// Errors  nlohmann::json::exception if it is something else.
std::string format_members(const nlohmann::ordered_json& members);

/// What a run tells whoever asks for its status: what its live page shows, the members of the run beside the
/// report, and the summary as text.
std::string status_of(training_report so_far, const std::vector<std::string>& waits);

/// The same in words. A run that has not begun says how many have joined.
///
/// Errors  std::runtime_error if it is no status of a run.
std::string format_status(const std::string& status);

} // namespace mailgrad
