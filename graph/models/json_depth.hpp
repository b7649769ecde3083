#pragma once

#include <cstddef>
#include <string_view>

namespace mailgrad {

/// Lists and objects that may stand within each other in a JSON file of ours, which needs four.
inline constexpr std::size_t most_json_depth = 32;

/// Whether a JSON text nests lists and objects deeper than that. It is asked before a text is parsed, since
/// the parser's values are visited by functions that call themselves.
bool is_too_deep(std::string_view json) noexcept;

} // namespace mailgrad
