#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace mailgrad {

/// The name that a mistyped word most likely stands for: the one fewest edits away, the first of equals.
///
/// Source  Damerau, CACM 7(3), 1964: insert, delete, replace a letter, or swap two neighbours, each once.
/// Errors  an empty view if there are no names.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names);

/// Edits between two words.
std::size_t edit_distance(std::string_view a, std::string_view b);

} // namespace mailgrad
