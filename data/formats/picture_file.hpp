#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

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

} // namespace mailgrad
