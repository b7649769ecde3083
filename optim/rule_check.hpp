#pragma once

#include <mailgrad/optim/plugin.h>

#include <span>
#include <string>
#include <string_view>

// Checks of a user's rule before Mailgrad trains with it: its table must be complete, and its update must
// work element by element, as plugin.h asks. `who` is the name of the rule in a message.

namespace mailgrad {

/// Errors  always std::invalid_argument: "optimizer 'WHO' WHY".
[[noreturn]] void refuse_rule(std::string_view who, const std::string& why);

bool in_range(const mailgrad_rule_setting& s, double value);

/// The table is one of as_of_today() (plugin_versions.hpp).
///
/// Errors  std::invalid_argument in one line: a version of the interface to come, a name or a function that
///         is missing, two settings of one name, too many states or settings, a default out of its range.
void require_complete(const mailgrad_rule& table, std::string_view who);

/// Updates 64 weights three times, in one range and in two, in place and into other memory, and compares the
/// bits. This finds rules that would make training depend on how a shard is cut. A rule of whole variables is
/// only asked to make the same bits again.
///
/// Errors  std::invalid_argument in one line, for a rule that looks at a neighbour, keeps something between
///         calls, reads a weight after writing it, or throws.
void require_element_by_element(const mailgrad_rule& table, std::span<const double> settings,
                                std::string_view who);

} // namespace mailgrad
