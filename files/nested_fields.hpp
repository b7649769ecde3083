#pragma once

#include <mailgrad/files/archive.hpp>

#include <memory>

namespace mailgrad {

/// Writes a whole archive, such as a part of a checkpoint, as fields of another one.
void write_nested(archive& to, const saved_fields& fields);

/// Reads what write_nested() wrote.
///
/// Errors  archive_error.
std::shared_ptr<saved_fields> read_nested(archive& from);

} // namespace mailgrad
