#pragma once

#include <mailgrad/data/dataset.hpp>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

/// The pictures that somebody names: files, and the files *.png, *.jpg and *.jpeg of folders, in the order of
/// their names. What lies deeper in a folder is passed over.
///
/// Errors  file_error: nothing of that name, or a folder without a picture.
std::vector<std::filesystem::path> find_pictures(std::span<const std::string> named);

/// Decodes pictures (picture_file) as those of a data set are decoded: with one channel as greys, with three
/// as colours.
///
/// Shapes  dims: {height, width, channels} of every picture, with 1 or 3 channels.
/// Errors  file_error: a picture of another size; what picture_file says. std::invalid_argument for a shape
///         that no picture has.
byte_features decode_pictures(std::span<const std::filesystem::path> files, const shape& dims);

} // namespace mailgrad
