#include <mailgrad/data/formats/picture_file.hpp>

#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/files/file_error.hpp>

#include <fmt/format.h>

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

namespace fs = std::filesystem;

namespace {

/// The largest file of a picture that is read. It is held in memory while it is decoded.
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 28;

constexpr std::string_view png_signature = "\x89PNG\r\n\x1a\n";
constexpr std::string_view jpeg_signature = "\xff\xd8\xff";

/// What a library says of a file, in one line.
std::string first_line(std::string_view words) { return std::string(words.substr(0, words.find('\n'))); }

} // namespace

struct picture_file::decoder {
  explicit decoder(const fs::path& name) : file(name) {}
  virtual ~decoder() = default;
  decoder(const decoder&) = delete;
  decoder& operator=(const decoder&) = delete;
  virtual void read(std::span<std::uint8_t> pixels, std::size_t channels) = 0;

  [[noreturn]] void fail(std::string_view why) const {
    throw_malformed(file, fmt::format("the picture is damaged: {}", first_line(why)));
  }

  fs::path file;
  std::size_t width = 0;
  std::size_t height = 0;
  bool has_colours = false;
};

struct picture_file::png_decoder final : decoder {
  png_decoder(const fs::path& name, std::vector<std::uint8_t> all) : decoder(name), bytes(std::move(all)) {
    image.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) fail(image.message);
    width = image.width;
    height = image.height;
    has_colours = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  }
  ~png_decoder() override { png_image_free(&image); }

  void read(std::span<std::uint8_t> pixels, std::size_t channels) override {
    image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    constexpr png_color black{0, 0, 0};
    if (png_image_finish_read(&image, &black, pixels.data(), 0, nullptr) == 0 || image.warning_or_error > 1)
      fail(image.message);
  }

  std::vector<std::uint8_t> bytes;
  png_image image{};
};

struct picture_file::jpeg_decoder final : decoder {
  jpeg_decoder(const fs::path& name, std::vector<std::uint8_t> all) : decoder(name), bytes(std::move(all)) {
    if (handle == nullptr) throw std::bad_alloc();
    int w = 0, h = 0, sampling = 0, colours = 0;
    if (tjDecompressHeader3(handle.get(), bytes.data(), size(), &w, &h, &sampling, &colours) != 0)
      fail(tjGetErrorStr2(handle.get()));
    if (colours == TJCS_CMYK || colours == TJCS_YCCK)
      throw_malformed(file,
                      "expected a picture of greys or of red, green and blue, found one of printing colours");
    width = static_cast<std::size_t>(w);
    height = static_cast<std::size_t>(h);
    has_colours = colours != TJCS_GRAY;
  }

  /// A warning, such as of a file that is cut, counts as damage.
  void read(std::span<std::uint8_t> pixels, std::size_t channels) override {
    constexpr int exact = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
    if (tjDecompress2(handle.get(), bytes.data(), size(), pixels.data(), static_cast<int>(width), 0,
                      static_cast<int>(height), channels == 1 ? TJPF_GRAY : TJPF_RGB, exact) != 0)
      fail(tjGetErrorStr2(handle.get()));
  }

  unsigned long size() const { return static_cast<unsigned long>(bytes.size()); }

  struct destroys {
    void operator()(void* h) const noexcept { tjDestroy(h); }
  };
  std::vector<std::uint8_t> bytes;
  std::unique_ptr<void, destroys> handle{tjInitDecompress()};
};

bool is_picture_name(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 3> suffixes{".png", ".jpg", ".jpeg"};
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
  return !name.starts_with('.') && std::ranges::any_of(suffixes, [&](std::string_view s) {
    return name.size() > s.size() && std::ranges::equal(name.substr(name.size() - s.size()), s, {}, lower);
  });
}

picture_file::picture_file(const fs::path& file) {
  byte_source source(file);
  std::vector<std::uint8_t> bytes = read_up_to(source, most_bytes);
  if (!source.at_end())
    throw_malformed(file, fmt::format("expected a picture of at most {} bytes, found more", most_bytes));
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 8));
  if (head == png_signature)
    decoder_ = std::make_unique<png_decoder>(file, std::move(bytes));
  else if (head.starts_with(jpeg_signature))
    decoder_ = std::make_unique<jpeg_decoder>(file, std::move(bytes));
  else
    throw_malformed(file, fmt::format("expected a PNG or JPEG picture, found {}", in_quotes(head)));
}

picture_file::~picture_file() = default;
picture_file::picture_file(picture_file&&) noexcept = default;

std::size_t picture_file::width() const noexcept { return decoder_->width; }
std::size_t picture_file::height() const noexcept { return decoder_->height; }
bool picture_file::has_colours() const noexcept { return decoder_->has_colours; }

void picture_file::read(std::span<std::uint8_t> pixels, std::size_t channels) {
  if ((channels != 1 && channels != 3) || pixels.size() != width() * height() * channels)
    throw std::invalid_argument(
        fmt::format("picture_file: room for {} numbers, where {}x{} pixels have {} each", pixels.size(),
                    width(), height(), channels));
  decoder_->read(pixels, channels);
}

} // namespace mailgrad
