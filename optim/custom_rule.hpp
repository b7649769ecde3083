#pragma once

#include <mailgrad/optim/plugin.h>
#include <mailgrad/optim/plugin_library.hpp>

// Checks of a user's rule before Mailgrad trains with it: its table must be complete, and its update must
// work element by element, as plugin.h asks. `who` is the name of the rule in a message.

namespace mailgrad {

/// The table of a rule in the form of this version of the interface. A table of an older version is shorter;
/// it is copied, and what it lacks is 0. The copy lives as long as the process, and is the same for the same
/// table. A table of this version, or of none that we know, is returned as it is.
/// Errors  std::bad_alloc.
/// Threads any.
const mailgrad_rule& as_of_today(const mailgrad_rule& table);

/// Errors  always std::invalid_argument: "optimizer 'WHO' WHY".
[[noreturn]] void refuse_rule(std::string_view who, const std::string& why);
bool in_range(const mailgrad_rule_setting& s, double value);

/// A user's update rule, compiled into the program (plugin.hpp) or loaded from a shared library.
struct custom_rule {
  const mailgrad_rule* table = nullptr; ///< lives as long as the process
  std::vector<double> settings;         ///< in the order of the table
  std::string label;                    ///< its name in the report: "lion", or "lion (./liblion.so)"
  std::string file{};                   ///< the path the user gave; empty for a rule compiled in
  std::string sha256{};                 ///< of the file, if another process has told the rule; else empty
};

/// The rule of a table with its default settings: `options.rule = make_custom_rule(rule_table<my_functor>)`.
/// Errors  std::invalid_argument in one line, if the table is of a version of the interface to come or
///         incomplete, or the rule does not work as it says.
custom_rule make_custom_rule(const mailgrad_rule& table);

/// Loads the rule that a shared library exports. A path without '/' names a file in the working folder.
/// Errors  std::invalid_argument in one line: no such file, no library, no plug-in, another version of the
///         interface (both are named), an incomplete table, a rule that does not work element by element.
custom_rule load_plugin(std::string_view path);

/// Errors  std::invalid_argument in one line, for no table, too few settings or one out of its range, and as
///         make_custom_rule() has it. The rule is checked again here because its settings may have changed.
void require_valid(const custom_rule& rule);

} // namespace mailgrad
