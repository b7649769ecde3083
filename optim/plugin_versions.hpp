#pragma once

#include <mailgrad/optim/plugin.h>

namespace mailgrad {

/// The table of a rule in the form of this version of the interface. A table of an older version is shorter;
/// it is copied, and what it lacks is 0. The copy lives as long as the process, and is the same for the same
/// table. A table of this version, or of none that we know, is returned as it is.
///
/// Errors  std::bad_alloc.
/// Threads any.
const mailgrad_rule& as_of_today(const mailgrad_rule& table);

} // namespace mailgrad
