#include <mailgrad/data/formats/idx.hpp>
#include <mailgrad/files/byte_source.hpp>

#include <array>

namespace mailgrad {

namespace {

constexpr std::uint32_t images_magic = 0x00000803;
constexpr std::uint32_t labels_magic = 0x00000801;

template <std::size_t N>
std::array<std::uint32_t, N> read_header(byte_source& source, std::uint32_t magic) {
  std::array<std::uint8_t, 4 * N> bytes{};
  const std::size_t found = source.read(bytes);
  std::array<std::uint32_t, N> numbers{};
  for (std::size_t i = 0; i < bytes.size(); ++i) numbers[i / 4] = numbers[i / 4] << 8 | bytes[i];
  if (found >= 4 && numbers[0] != magic)
    throw_malformed(source.file(), file_offset{0},
                    fmt::format("expected the magic number {}, found {}", in_hex(magic), in_hex(numbers[0])));
  if (found < bytes.size())
    throw_malformed(source.file(), file_offset{found},
                    fmt::format("expected an IDX header of {} bytes, found {}", bytes.size(),
                                found == 0 ? "an empty file" : std::to_string(found)));
  return numbers;
}

/// Reads the `count` bytes after the header, where the file must end.
std::vector<std::uint8_t> read_body(byte_source& source, std::uint64_t count, const std::string& what) {
  const auto too_short = [&](const std::string& found) {
    throw_malformed(source.file(), file_offset{4},
                    fmt::format("{} need {} bytes, found {}", what, count, found));
  };
  if (source.most_left() < count) too_short(fmt::format("at most {}", source.most_left()));
  std::vector<std::uint8_t> bytes = read_up_to(source, count);
  if (bytes.size() < count) too_short(std::to_string(bytes.size()));
  const std::uint64_t end = source.offset();
  if (!source.at_end())
    throw_malformed(source.file(), file_offset{end},
                    fmt::format("expected the end of the file after {}, found further bytes", what));
  return bytes;
}

} // namespace

byte_features read_idx_images(const std::filesystem::path& file) {
  byte_source source{file};
  const auto [magic, count, rows, columns] = read_header<4>(source, images_magic);
  const std::string what = fmt::format("{} images of {}x{}", count, rows, columns);
  if (count == 0 || rows == 0 || columns == 0)
    throw_malformed(file, file_offset{4}, fmt::format("expected an image, found {}", what));
  const std::uint64_t pixels = std::uint64_t{rows} * columns;
  if (pixels > byte_source::most_bytes / count)
    throw_malformed(file, file_offset{4},
                    fmt::format("{} need more than the {} bytes a file may hold, found at most {}", what,
                                byte_source::most_bytes, source.most_left()));
  return {{rows, columns, 1}, read_body(source, pixels * count, what)};
}

byte_labels read_idx_labels(const std::filesystem::path& file) {
  byte_source source{file};
  const auto [magic, count] = read_header<2>(source, labels_magic);
  if (count == 0) throw_malformed(file, file_offset{4}, "expected a label, found a count of 0");
  return {read_body(source, count, fmt::format("{} labels", count)), file, 8, 1};
}

dataset join_idx(byte_features images, const std::filesystem::path& images_file, const byte_labels& labels,
                 std::size_t classes) {
  const std::size_t count = images.values.size() / images.dims.size();
  if (labels.values.size() != count)
    throw_malformed(labels.file, file_offset{4},
                    fmt::format("expected {} labels, as {} has images, found {}", count,
                                images_file.filename().string(), labels.values.size()));
  if (classes == 0) classes = count_classes(labels);
  require_below(classes, labels);
  return {std::move(images), widened(labels), classes};
}

} // namespace mailgrad
