#pragma once

#include <mailgrad/files/archive.hpp>

#include <memory>
#include <string_view>

namespace mailgrad {

/// Writes a whole archive, such as a part of a checkpoint, as fields of another one.
void write_nested(archive& to, const saved_fields& fields);

/// Reads what write_nested() wrote.
///
/// Errors  archive_error.
std::shared_ptr<saved_fields> read_nested(archive& from);

/// Writes or reads a whole archive that may be null, in a group of this name.
///
/// Errors  archive_error.
void keep_nested(archive& a, std::string_view name, std::shared_ptr<saved_fields>& fields);

} // namespace mailgrad
