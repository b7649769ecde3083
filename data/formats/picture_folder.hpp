#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/formats/label_map.hpp>
#include <mailgrad/data/formats/parsed_limit.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

/// How the pixels of pictures become numbers. `automatic` takes colours if the first picture has some, and
/// refuses a picture with colours after one without.
enum class picture_channels : std::uint8_t { automatic, grey, rgb };

struct picture_options {
  picture_channels channels = picture_channels::automatic;
  shape
      dims{}; ///< height, width and channels, if they are known; without extents the first picture tells them
  parsed_limit limit{};
};

/// The pictures of a folder, class by class.
struct labelled_pictures {
  byte_features images; ///< {height, width, channels}
  std::vector<std::int32_t> labels;
  std::size_t deep = 0; ///< how many have numbers of 16 bits, of which the lower 8 are lost
};

/// The files *.png, *.jpg and *.jpeg of a folder, in the order of their names.
///
/// Errors  file_error for a folder that cannot be read.
std::vector<std::filesystem::path> pictures_of(const std::filesystem::path& folder);

/// Whether a folder has folders with pictures in them.
bool is_picture_folder(const std::filesystem::path& folder);

/// Reads a folder that has a folder for each class, with pictures (picture_file) in it. A class is called as
/// its folder is. Other files are passed over.
///
/// A training folder needs `labels` open and settles them; a test folder needs them settled.
/// Errors  file_error: a class without pictures, or one that `labels` refuses; a picture of another size than
///         the first; more pictures than the limit has room for, before the first is decoded; what
///         picture_file says.
labelled_pictures read_pictures(const std::filesystem::path& folder, const picture_options& options,
                                label_map& labels);

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
