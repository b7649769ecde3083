#pragma once

#include <cstddef>
#include <string_view>

namespace mailgrad {

/// How deep lists and objects may be nested in a JSON file that Mailgrad reads. Its files need a depth of
/// four.
inline constexpr std::size_t most_json_depth = 32;

/// Whether a JSON text nests lists and objects deeper than that. This is checked before the text is parsed,
/// since recursive functions visit the parser's values.
bool is_too_deep(std::string_view json) noexcept;

} // namespace mailgrad
