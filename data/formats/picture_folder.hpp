#pragma once

#include <mailgrad/data/dataset.hpp>

namespace mailgrad {

/// Whether a file is called *.png, *.jpg or *.jpeg, in capitals or not.
bool is_picture_name(std::string_view name);

/// A picture in a PNG or JPEG file, open for reading. Its first bytes tell which.
///
/// The constructor reads the header alone, so the caller knows the size before it takes memory for pixels.
/// Errors  file_error in one line: no such file, no picture, or a damaged one.
/// Threads one caller at a time.
class picture_file {
public:
  explicit picture_file(const std::filesystem::path& file);
  ~picture_file();
  picture_file(picture_file&&) noexcept;
  std::size_t width() const noexcept;
  std::size_t height() const noexcept;
  /// Whether it has colours; a picture of greys that is written as colours counts as one that has.
  bool has_colours() const noexcept;
  /// Whether its numbers have 16 bits, of which the lower 8 are lost.
  bool is_deep() const noexcept;

  /// Reads the pixels, row by row from the top: with one channel as greys, with three as red, green and blue.
  /// One colour is the same numbers whatever file it comes from, and those that Pillow gives:
  ///
  /// - a grey of 1, 2 or 4 bits is stretched to 0 to 255, and of 16 bits the upper 8 are taken;
  /// - alpha is dropped, so a transparent pixel has the colour that the file has under it;
  /// - gamma, profiles and the orientation that EXIF tells change nothing;
  /// - inks, which a file has inverted as Adobe's programs write them, become (1 - ink) (1 - black);
  /// - the grey of a colour is (19595 r + 38470 g + 7471 b + 32768) / 65536, rounded down.
  ///
  /// Source  ITU-R BT.601 for the weights of greys. Differs: Pillow cuts a grey of 16 bits off at 255.
  /// Shapes  pixels: uint8[height(), width(), channels], with 1 or 3 channels.
  /// Errors  file_error for a file that is cut or damaged; std::invalid_argument for another length.
  void read(std::span<std::uint8_t> pixels, std::size_t channels);

private:
  struct decoder;
  struct png_decoder;
  struct jpeg_decoder;
  std::unique_ptr<decoder> decoder_;
};

/// How the pixels of pictures become numbers. `automatic` takes colours if the first picture has some, and
/// refuses a picture with colours after one without.
enum class picture_channels : std::uint8_t { automatic, grey, rgb };

struct picture_options {
  picture_channels channels = picture_channels::automatic;
  shape dims{}; ///< height, width and channels; without extents the first picture tells them
  parsed_limit limit{};
};

struct labelled_pictures {
  byte_features images; ///< {height, width, channels}
  std::vector<std::int32_t> labels;
  std::size_t deep = 0; ///< how many have numbers of 16 bits, of which the lower 8 are lost
};

/// The files *.png, *.jpg and *.jpeg of a folder, in the order of their names.
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
/// Errors  file_error: nothing of that name, or a folder without a picture.
std::vector<std::filesystem::path> find_pictures(std::span<const std::string> named);

/// Decodes pictures (picture_file) as those of a data set are decoded: with one channel as greys, with three
/// as colours.
/// Shapes  dims: {height, width, channels} of every picture, with 1 or 3 channels.
/// Errors  file_error: a picture of another size; what picture_file says. std::invalid_argument for a shape
///         that no picture has.
byte_features decode_pictures(std::span<const std::filesystem::path> files, const shape& dims);

} // namespace mailgrad
