#pragma once

#include <mailgrad/data/files.hpp>

#include <filesystem>
#include <string_view>

namespace mailgrad {

/// The format that a file's name tells, without .gz: .bin, .csv, .data, .tra, .tes, .libsvm, .svm, -vect,
/// .txt, ratings.dat. `automatic` if it tells none.
file_format format_of_name(std::string_view name);

/// The format that a file's first lines look like; `automatic` if they look like none.
///
/// Errors  file_error, as byte_source.
file_format format_of_content(const std::filesystem::path& file);

} // namespace mailgrad
