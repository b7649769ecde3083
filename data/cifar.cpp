#include <mailgrad/data/cifar.hpp>

#include <mailgrad/data/byte_source.hpp>
#include <mailgrad/data/error.hpp>

#include <stdexcept>

namespace mailgrad {

namespace {

/// Writes the planes of one picture as pixels with their channels side by side.
void interweave(std::span<const std::uint8_t> planes, std::size_t channels, std::uint8_t* pixels) {
  const std::size_t n = planes.size() / channels;
  for (std::size_t channel = 0; channel < channels; ++channel)
    for (std::size_t i = 0; i < n; ++i) pixels[i * channels + channel] = planes[channel * n + i];
}

} // namespace

cifar_records read_cifar(const std::filesystem::path& file, const shape& dims) {
  if (dims.rank() != 3 || dims.size() == 0)
    throw std::invalid_argument("cifar: a picture is height x width x channels, not " + to_string(dims));
  byte_source source{file};
  cifar_records records{{dims, {}}, {{}, file, 0, 1 + dims.size()}};
  std::vector<std::uint8_t>& pixels = records.images.values;
  std::vector<std::uint8_t> record(1 + dims.size());
  std::uint64_t begin = 0;
  while (source.read(record) == record.size()) {
    begin = source.offset();
    records.labels.values.push_back(record.front());
    pixels.resize(pixels.size() + dims.size());
    interweave(std::span(record).subspan(1), dims[2], pixels.data() + pixels.size() - dims.size());
  }
  const std::uint64_t rest = source.offset() - begin;
  if (rest > 0 || begin == 0)
    throw_malformed(file, file_offset{begin},
                    "expected a record of " + std::to_string(record.size()) + " bytes, found " +
                        (source.offset() == 0 ? "an empty file" : std::to_string(rest)));
  pixels.shrink_to_fit();
  return records;
}

dataset join_cifar(cifar_records records, std::size_t classes) {
  if (classes == 0) classes = count_classes(records.labels);
  require_below(classes, records.labels);
  return {std::move(records.images), widened(records.labels), classes};
}

} // namespace mailgrad
