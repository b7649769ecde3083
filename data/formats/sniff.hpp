#pragma once

#include <mailgrad/data/files.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace mailgrad {

/// Tells the format by the end of a file's name, in capitals or not and without .gz: .bin, .csv, .data, .tra,
/// .tes, .libsvm, .svm,
/// -vect, .txt, .npz, .npy, ratings.dat. Returns `automatic` for other names.
file_format format_of_name(std::string_view name);

/// A name whose letters are small, of those that have a place in ASCII. By this, names are compared.
std::string in_small_letters(std::string_view name);

/// Tells the format by a file's first lines. Returns `automatic` if they fit none.
///
/// Errors  file_error, as byte_source.
file_format format_of_content(const std::filesystem::path& file);

/// What a file of a format that is not read should become, by its first bytes; empty if they do not tell.
///
/// Errors  file_error, as byte_source.
std::string_view advice_on(const std::filesystem::path& file);

} // namespace mailgrad
