#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace mailgrad {

/// Whether a file is called *.png, *.jpg or *.jpeg, in capitals or not.
bool is_picture_name(std::string_view name) noexcept;

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

  /// Reads the pixels, row by row from the top: with one channel as greys, with three as red, green and blue.
  /// What is transparent is black. Numbers of 16 bits are rounded to 8.
  ///
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
