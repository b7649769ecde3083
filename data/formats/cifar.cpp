#include <mailgrad/data/formats/cifar.hpp>

#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/files/file_error.hpp>

#include <fmt/format.h>

#include <stdexcept>

namespace mailgrad {

namespace {

/// Writes the planes of one picture as pixels whose channels lie side by side.
void interweave(std::span<const std::uint8_t> planes, std::size_t channels, std::uint8_t* pixels) {
  const std::size_t n = planes.size() / channels;
  for (std::size_t channel = 0; channel < channels; ++channel)
    for (std::size_t i = 0; i < n; ++i) pixels[i * channels + channel] = planes[channel * n + i];
}

void require_whole_records(const std::filesystem::path& file, std::uint64_t bytes, std::size_t record) {
  const std::uint64_t rest = bytes % record;
  if (bytes > 0 && rest == 0) return;
  throw_malformed(file, file_offset{bytes - rest},
                  fmt::format("expected a record of {} bytes, found {}", record,
                              bytes == 0 ? "an empty file" : std::to_string(rest)));
}

} // namespace

cifar_records read_cifar(const std::filesystem::path& file, const shape& dims, std::size_t classes) {
  if (dims.rank() != 3 || dims.size() == 0)
    throw std::invalid_argument(
        fmt::format("cifar: a picture is height x width x channels, not {}", to_string(dims)));
  byte_source source{file};
  cifar_records records{{dims, {}}, {{}, file, 0, 1 + dims.size()}};
  std::vector<std::uint8_t>& pixels = records.images.values;
  std::vector<std::uint8_t> record(1 + dims.size());
  if (!source.is_packed()) require_whole_records(file, source.most_left(), record.size());
  while (source.read(record) == record.size()) {
    records.labels.values.push_back(record.front());
    if (classes > 0 && record.front() >= classes) require_below(classes, records.labels);
    pixels.resize(pixels.size() + dims.size());
    interweave(std::span(record).subspan(1), dims[2], pixels.data() + pixels.size() - dims.size());
  }
  require_whole_records(file, source.offset(), record.size());
  pixels.shrink_to_fit();
  return records;
}

dataset join_cifar(cifar_records records, std::size_t classes) {
  if (classes == 0) classes = count_classes(records.labels);
  require_below(classes, records.labels);
  return {std::move(records.images), widened(records.labels), classes};
}

} // namespace mailgrad
