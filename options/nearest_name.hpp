#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace mailgrad {

/// The name that a mistyped word most likely stands for: the one fewest edits away, the first of equals.
///
/// Source  Damerau, CACM 7(3), 1964: insert, delete, replace a letter, or swap two neighbours, each once.
/// Errors  an empty view if there are no names.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names);

/// Whether a word may stand for a name so many edits away. The limit is a third of its letters, but at least
/// two for words of four or more letters, and at least one for shorter words.
bool is_near(std::string_view word, std::size_t edits) noexcept;

/// The name that `word` may stand for: the nearest one if is_near(), otherwise a name that begins `word`, as
/// "batch" begins "batchsize", or that `word` begins. An empty view if there is none.
std::string_view meant_name(std::string_view word, std::span<const std::string_view> names);

/// What to write in place of `word`: "did you mean 'adam'?" if meant_name() finds a name, otherwise "known
/// are: sgd, adam"; empty if there are no names.
std::string suggestion(std::string_view word, std::span<const std::string_view> names);

/// Edits between two words.
std::size_t edit_distance(std::string_view a, std::string_view b);

} // namespace mailgrad
