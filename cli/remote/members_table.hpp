#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

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
std::string members_in_words(const nlohmann::ordered_json& members);

} // namespace mailgrad
