#pragma once

#include <png.h>
#include <turbojpeg.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace mailgrad {

inline std::string png_file(unsigned width, unsigned height, png_uint_32 format, const void* pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = format;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels, 0, nullptr) == 0)
    throw std::runtime_error(image.message);
  bytes.resize(size);
  return bytes;
}

/// A PNG file of these pixels, row by row. `channels` is 1 or 3.
inline std::string png_of(unsigned width, unsigned height, unsigned channels, std::string_view pixels) {
  if (pixels.size() != std::size_t{width} * height * channels) throw std::logic_error("png_of: pixels");
  return png_file(width, height, channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB, pixels.data());
}

/// A PNG file of greys of 16 bits, in one row.
inline std::string deep_png_of(std::u16string_view greys) {
  return png_file(static_cast<unsigned>(greys.size()), 1, PNG_FORMAT_LINEAR_Y, greys.data());
}

/// The same as a JPEG file of the best quality.
inline std::string jpeg_of(int width, int height, int channels, std::string_view pixels) {
  unsigned char* out = nullptr;
  unsigned long size = 0;
  const tjhandle handle = tjInitCompress();
  const int failure = tjCompress2(handle, reinterpret_cast<const unsigned char*>(pixels.data()), width, 0,
                                  height, channels == 1 ? TJPF_GRAY : TJPF_RGB, &out, &size,
                                  channels == 1 ? TJSAMP_GRAY : TJSAMP_444, 100, 0);
  std::string bytes(reinterpret_cast<char*>(out), failure == 0 ? size : 0);
  tjFree(out);
  tjDestroy(handle);
  if (failure != 0) throw std::runtime_error("jpeg_of");
  return bytes;
}

} // namespace mailgrad
