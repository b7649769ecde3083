#include <mailgrad/data/files.hpp>
#include <mailgrad/data/formats/picture_folder.hpp>
#include <mailgrad/files/byte_source.hpp>

#ifdef MAILGRAD_PICTURES
#include <png.h>
#include <turbojpeg.h>
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <csetjmp>
#include <new>
#include <system_error>

namespace mailgrad {

namespace fs = std::filesystem;

namespace {

/// The largest file of a picture that is read. It is held in memory while it is decoded.
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 28;
constexpr std::string_view png_signature = "\x89PNG\r\n\x1a\n";
constexpr std::string_view jpeg_signature = "\xff\xd8\xff";

/// The luma of ITU-R BT.601 in 16 bits behind the point.
std::uint8_t grey_of(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + (1U << 15)) >> 16);
}

/// What stands in a folder and is wanted, in the order of the names.
template <class Wanted>
std::vector<fs::path> listed(const fs::path& folder, Wanted wanted) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry{folder, error}, end; !error && entry != end; entry.increment(error))
    if (wanted(*entry)) found.push_back(entry->path());
  if (error) throw_unreadable(folder, error.value());
  std::ranges::sort(found);
  return found;
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  return listed(folder, [](const fs::directory_entry& e) {
    std::error_code gone;
    const std::string name = e.path().filename().string();
    return e.is_directory(gone) && !name.starts_with('.') && name != "__MACOSX"; // of archives by Apple
  });
}

struct labelled_file {
  fs::path file;
  std::int32_t label = 0;
};

std::vector<labelled_file> files_of(const fs::path& folder, label_map& labels) {
  std::vector<labelled_file> all;
  for (const fs::path& group : folders_in(folder)) {
    const std::string name = group.filename().string();
    const auto label = labels.find(name);
    if (!label)
      throw_malformed(group, fmt::format("expected {}, found the folder {}", labels.expected("class name"),
                                         in_quotes(name)));
    const std::vector<fs::path> files = pictures_of(group);
    if (files.empty()) throw_malformed(group, "expected pictures *.png or *.jpg of a class, found none");
    for (const fs::path& file : files) all.push_back({file, *label});
  }
  if (all.empty()) throw_malformed(folder, "expected a folder for each class, found none");
  return all;
}

/// The size of every picture: that of the first, unless it is known.
shape dims_of(const fs::path& first, const picture_options& options) {
  if (options.dims.rank() > 0) return options.dims;
  const picture_file picture(first);
  const bool coloured = options.channels == picture_channels::rgb ||
                        (options.channels == picture_channels::automatic && picture.has_colours());
  return {picture.height(), picture.width(), coloured ? std::size_t{3} : std::size_t{1}};
}

void read_into(std::span<std::uint8_t> pixels, picture_file& picture, const fs::path& file, const shape& dims,
               picture_channels channels) {
  if (picture.height() != dims[0] || picture.width() != dims[1])
    throw_malformed(file, fmt::format("expected {}x{} pixels, as the other pictures have, found {}x{}",
                                      dims[1], dims[0], picture.width(), picture.height()));
  if (channels == picture_channels::automatic && dims[2] == 1 && picture.has_colours())
    throw_malformed(
        file, "expected a picture of greys, as the first is, found one with colours; --pictures grey or "
              "rgb (picture_options::channels) takes both");
  picture.read(pixels, dims[2]);
}

} // namespace

struct picture_file::decoder {
  explicit decoder(const fs::path& name) : file(name) {}
  virtual ~decoder() = default;
  decoder(const decoder&) = delete;
  decoder& operator=(const decoder&) = delete;
  /// The pixels as the file has them: of three channels if it has colours, otherwise of one.
  virtual void decode(std::span<std::uint8_t> pixels) = 0;
  std::size_t channels() const noexcept { return has_colours ? 3 : 1; }
  /// `why` is what a library says, of which one line is told.
  [[noreturn]] void fail(std::string_view why) const {
    throw_malformed(file, fmt::format("the picture is damaged: {}", why.substr(0, why.find('\n'))));
  }

  fs::path file;
  std::size_t width = 0;
  std::size_t height = 0;
  bool has_colours = false;
  bool is_deep = false;
};

#ifdef MAILGRAD_PICTURES

/// libpng reports errors by a long jump, so the functions that call it have no objects to destroy.
struct picture_file::png_decoder final : decoder {
  /// Frees what libpng keeps, also if the constructor below throws.
  struct kept_by_libpng {
    kept_by_libpng(void* owner, png_error_ptr on_error, png_error_ptr on_warning)
        : png(png_create_read_struct(PNG_LIBPNG_VER_STRING, owner, on_error, on_warning)),
          info(png == nullptr ? nullptr : png_create_info_struct(png)) {
      if (info != nullptr) return;
      png_destroy_read_struct(&png, nullptr, nullptr);
      throw std::bad_alloc();
    }
    ~kept_by_libpng() { png_destroy_read_struct(&png, &info, nullptr); }
    kept_by_libpng(const kept_by_libpng&) = delete;
    kept_by_libpng& operator=(const kept_by_libpng&) = delete;

    png_structp png;
    png_infop info;
  };

  png_decoder(const fs::path& name, std::vector<std::uint8_t> all) : decoder(name), bytes(std::move(all)) {
    if (!reads_header()) fail(why.data());
  }

  void decode(std::span<std::uint8_t> pixels) override {
    std::vector<png_bytep> rows;
    for (std::size_t y = 0; y < height; ++y) rows.push_back(pixels.data() + y * width * channels());
    if (!reads(rows.data())) fail(why.data());
  }

  /// Has numbers of every depth come as bytes, and drops alpha. Chunks on gamma and profiles change nothing.
  bool reads_header() {
    if (setjmp(png_jmpbuf(state.png)) != 0) return false;
    png_set_read_fn(state.png, this, give);
    png_read_info(state.png, state.info);
    is_deep = png_get_bit_depth(state.png, state.info) == 16;
    png_set_expand_gray_1_2_4_to_8(state.png);
    png_set_palette_to_rgb(state.png);
    png_set_strip_16(state.png);
    png_set_strip_alpha(state.png);
    png_set_interlace_handling(state.png);
    png_read_update_info(state.png, state.info);
    width = png_get_image_width(state.png, state.info);
    height = png_get_image_height(state.png, state.info);
    has_colours = (png_get_color_type(state.png, state.info) & PNG_COLOR_MASK_COLOR) != 0;
    if (png_get_rowbytes(state.png, state.info) != width * channels()) png_error(state.png, "odd row");
    return true;
  }

  bool reads(png_bytepp rows) {
    if (setjmp(png_jmpbuf(state.png)) != 0) return false;
    png_read_image(state.png, rows);
    return true;
  }

  static void give(png_structp png, png_bytep to, std::size_t count) {
    auto& self = *static_cast<png_decoder*>(png_get_io_ptr(png));
    if (count > self.bytes.size() - self.taken) png_error(png, "the file ends too early");
    std::copy_n(self.bytes.data() + self.taken, count, to);
    self.taken += count;
  }

  [[noreturn]] static void on_error(png_structp png, png_const_charp words) {
    auto& why = static_cast<png_decoder*>(png_get_error_ptr(png))->why;
    const std::string_view some = std::string_view(words).substr(0, why.size() - 1);
    *std::ranges::copy(some, why.begin()).out = '\0';
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {} // what a viewer shows is read

  std::vector<std::uint8_t> bytes;
  std::size_t taken = 0;
  std::array<char, 128> why{}; ///< the last error
  kept_by_libpng state{this, on_error, on_warning};
};

struct picture_file::jpeg_decoder final : decoder {
  jpeg_decoder(const fs::path& name, std::vector<std::uint8_t> all) : decoder(name), bytes(std::move(all)) {
    if (handle == nullptr) throw std::bad_alloc();
    int w = 0, h = 0, sampling = 0, colours = 0;
    if (tjDecompressHeader3(handle.get(), bytes.data(), size(), &w, &h, &sampling, &colours) != 0)
      refuse(tjGetErrorStr2(handle.get()));
    has_inks = colours == TJCS_CMYK || colours == TJCS_YCCK;
    width = static_cast<std::size_t>(w);
    height = static_cast<std::size_t>(h);
    has_colours = colours != TJCS_GRAY;
  }

  void decode(std::span<std::uint8_t> pixels) override {
    if (!has_inks) return decode_as(has_colours ? TJPF_RGB : TJPF_GRAY, pixels);
    std::vector<std::uint8_t> inks(width * height * 4);
    decode_as(TJPF_CMYK, inks);
    for (std::size_t i = 0; i < width * height; ++i) {
      const unsigned light = inks[4 * i + 3]; // 255 less black
      for (std::size_t c = 0; c < 3; ++c)
        pixels[3 * i + c] = static_cast<std::uint8_t>(light - share_of(255U - inks[4 * i + c], light));
    }
  }

  /// A warning, such as of a file that is cut, counts as damage.
  void decode_as(TJPF form, std::span<std::uint8_t> pixels) {
    constexpr int exact = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
    if (tjDecompress2(handle.get(), bytes.data(), size(), pixels.data(), static_cast<int>(width), 0,
                      static_cast<int>(height), form, exact) != 0)
      fail(tjGetErrorStr2(handle.get()));
  }

  [[noreturn]] void refuse(std::string_view why) const {
    if (why.find("subsampling") == std::string_view::npos) fail(why);
    throw_malformed(file, "expected colours that are sampled as 4:4:4, 4:2:2, 4:2:0, 4:4:0 or 4:1:1, found "
                          "another way; save the picture again, as PNG or by Pillow");
  }

  /// a * b / 255, rounded.
  static unsigned share_of(unsigned a, unsigned b) {
    const unsigned product = a * b + 128;
    return ((product >> 8) + product) >> 8;
  }
  unsigned long size() const { return static_cast<unsigned long>(bytes.size()); }

  struct destroys {
    void operator()(void* h) const noexcept { tjDestroy(h); }
  };
  std::vector<std::uint8_t> bytes;
  std::unique_ptr<void, destroys> handle{tjInitDecompress()};
  bool has_inks = false; ///< cyan, magenta, yellow and black, as all programs write them: 255 less each
};

#endif // MAILGRAD_PICTURES

bool is_picture_name(std::string_view name) {
  constexpr std::array<std::string_view, 3> suffixes{".png", ".jpg", ".jpeg"};
  const std::string small = in_small_letters(name);
  return !small.starts_with('.') &&
         std::ranges::any_of(suffixes, [&](std::string_view s) { return small.ends_with(s); });
}

picture_file::picture_file(const fs::path& file) {
  byte_source source(file);
  std::vector<std::uint8_t> bytes = read_up_to(source, most_bytes);
  if (!source.at_end())
    throw_malformed(file, fmt::format("expected a picture of at most {} bytes, found more", most_bytes));
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 8));
  const bool is_png = head == png_signature;
  if (!is_png && !head.starts_with(jpeg_signature))
    throw_malformed(file, fmt::format("expected a PNG or JPEG picture, found {}", in_quotes(head)));
#ifdef MAILGRAD_PICTURES
  if (is_png)
    decoder_ = std::make_unique<png_decoder>(file, std::move(bytes));
  else
    decoder_ = std::make_unique<jpeg_decoder>(file, std::move(bytes));
#else
  throw file_error(
      std::make_error_code(std::errc::not_supported),
      fmt::format("{}: this Mailgrad was built without libpng and libjpeg-turbo, so it reads no pictures",
                  file.string()));
#endif
}

picture_file::~picture_file() = default;
picture_file::picture_file(picture_file&&) noexcept = default;
std::size_t picture_file::width() const noexcept { return decoder_->width; }
std::size_t picture_file::height() const noexcept { return decoder_->height; }
bool picture_file::has_colours() const noexcept { return decoder_->has_colours; }
bool picture_file::is_deep() const noexcept { return decoder_->is_deep; }

void picture_file::read(std::span<std::uint8_t> pixels, std::size_t channels) {
  if ((channels != 1 && channels != 3) || pixels.size() != width() * height() * channels)
    throw std::invalid_argument(
        fmt::format("picture_file: room for {} numbers, where {}x{} pixels have {} each", pixels.size(),
                    width(), height(), channels));
  if (channels == decoder_->channels()) return decoder_->decode(pixels);
  std::vector<std::uint8_t> own(width() * height() * decoder_->channels());
  decoder_->decode(own);
  for (std::size_t i = 0; i < width() * height(); ++i)
    if (channels == 1)
      pixels[i] = grey_of(own.data() + 3 * i);
    else
      std::fill_n(pixels.data() + 3 * i, 3, own[i]);
}

std::vector<fs::path> pictures_of(const fs::path& folder) {
  return listed(folder, [](const fs::directory_entry& e) {
    std::error_code gone;
    return is_picture_name(e.path().filename().string()) && e.is_regular_file(gone);
  });
}

bool is_picture_folder(const fs::path& folder) {
  return std::ranges::any_of(folders_in(folder), [](const fs::path& f) { return !pictures_of(f).empty(); });
}

labelled_pictures read_pictures(const fs::path& folder, const picture_options& options, label_map& labels) {
  const std::vector<labelled_file> files = files_of(folder, labels);
  const shape dims = dims_of(files.front().file, options);
  const std::size_t each = dims.size();
  options.limit.require(folder, each > options.limit.bytes / files.size() ? options.limit.bytes + 1
                                                                          : each * files.size());
  labelled_pictures all{{dims, std::vector<std::uint8_t>(each * files.size())}, {}};
  for (std::size_t i = 0; i < files.size(); ++i) {
    picture_file picture(files[i].file);
    read_into(std::span(all.images.values).subspan(i * each, each), picture, files[i].file, dims,
              options.channels);
    all.deep += picture.is_deep() ? 1 : 0;
    all.labels.push_back(files[i].label);
  }
  if (labels.is_open()) labels.settle(all.labels);
  return all;
}

std::vector<fs::path> find_pictures(std::span<const std::string> named) {
  std::vector<fs::path> all;
  for (const fs::path path : named) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) throw_unreadable(path, error ? error.value() : ENOENT);
    if (!fs::is_directory(status)) {
      all.push_back(path);
      continue;
    }
    const std::vector<fs::path> files = pictures_of(path);
    if (files.empty()) throw_malformed(path, "expected pictures *.png or *.jpg in the folder, found none");
    all.insert(all.end(), files.begin(), files.end());
  }
  return all;
}

byte_features decode_pictures(std::span<const fs::path> files, const shape& dims) {
  if (dims.rank() != 3 || (dims[2] != 1 && dims[2] != 3))
    throw std::invalid_argument(
        fmt::format("pictures: expected a height, a width and 1 or 3 channels, found {}", to_string(dims)));
  const std::size_t each = dims.size();
  byte_features all{dims, std::vector<std::uint8_t>(each * files.size())};
  for (std::size_t i = 0; i < files.size(); ++i) {
    picture_file picture(files[i]);
    if (picture.height() != dims[0] || picture.width() != dims[1])
      throw_malformed(files[i], fmt::format("expected {}x{} pixels, as the model reads them, found {}x{}",
                                            dims[1], dims[0], picture.width(), picture.height()));
    picture.read(std::span(all.values).subspan(i * each, each), dims[2]);
  }
  return all;
}

} // namespace mailgrad
