#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/formats/label_map.hpp>
#include <mailgrad/data/formats/parsed_limit.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
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

} // namespace mailgrad
