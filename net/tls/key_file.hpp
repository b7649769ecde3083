#pragma once

#include <mailgrad/net/frame_fields.hpp>

#include <cstddef>
#include <string>

namespace mailgrad::net {

/// Whether others may know what a file holds.
enum class secrecy { secret, known_to_all };

/// The bytes of a small file.
///
/// Errors  std::system_error that names it. std::invalid_argument in one line if it is larger than `most`, or
///         if others than its owner may read what is secret.
bytes read_key_file(const std::string& path, secrecy s, std::size_t most = 64 << 10);

} // namespace mailgrad::net
