#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/optim/optimizer_options.hpp>

#include <string_view>

namespace mailgrad {

/// Writes or reads an update rule with all its settings, so that another process can make the same steps. Of
/// a rule of the user's own its name and the SHA-256 of its plug-in are written, and what is read has no
/// table: known_plugins::complete() gives it that of this process.
///
/// Errors  std::invalid_argument for a rule of the user's own that has no table; std::system_error if its
///         plug-in cannot be read; archive_error for a rule that there is not, or a setting out of its range.
void keep_optimizer(archive& a, std::string_view name, optimizer_options& o);

} // namespace mailgrad
