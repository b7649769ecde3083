#pragma once

#include <mailgrad/data/formats/csv.hpp>
#include <mailgrad/files/file_error.hpp>

#include <filesystem>
#include <span>
#include <string_view>

namespace mailgrad {

/// Whether the first line of a table is its header.
bool is_csv_header(const csv_options& options, std::span<const std::string_view> first_line);

/// Completes `options` by the columns of a file: the number of the label's column, and the names and the
/// kinds of the others, as far as the user has stated them. If the columns are known, the header is compared
/// with them.
///
/// `header` is empty if there is none, and otherwise as long as `first_row`.
/// Errors  file_error, naming `file` and `line`.
void learn_csv_columns(csv_options& options, std::span<const std::string_view> header,
                       std::span<const std::string_view> first_row, const std::filesystem::path& file,
                       file_line line);

} // namespace mailgrad
