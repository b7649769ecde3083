#include <mailgrad/data/formats/cifar.hpp>
#include <mailgrad/files/byte_source.hpp>

namespace mailgrad {

namespace {

/// Writes the planes of one picture as pixels whose channels lie side by side.
void interweave(std::span<const std::uint8_t> planes, std::size_t channels, std::uint8_t* pixels) {
  const std::size_t n = planes.size() / channels;
  for (std::size_t channel = 0; channel < channels; ++channel)
    for (std::size_t i = 0; i < n; ++i) pixels[i * channels + channel] = planes[channel * n + i];
}

void require_whole_records(const std::filesystem::path& file, std::uint64_t bytes, const cifar_record& of) {
  const std::size_t record = of.label_bytes + of.dims.size();
  const std::uint64_t rest = bytes % record;
  if (bytes > 0 && rest == 0) return;
  const bool is_of_100 = of.label_bytes == 1 && bytes > 0 && bytes % (record + 1) == 0;
  throw_malformed(file, file_offset{bytes - rest},
                  fmt::format("expected a record of {} bytes, found {}{}", record,
                              bytes == 0 ? "an empty file" : std::to_string(rest),
                              is_of_100
                                  ? "; records of CIFAR-100 have two labels, and are read as such where "
                                    "fine_label_names.txt lies beside them"
                                  : ""));
}

} // namespace

cifar_records read_cifar(const std::filesystem::path& file, const cifar_record& of, std::size_t classes) {
  const shape& dims = of.dims;
  if (dims.rank() != 3 || dims.size() == 0)
    throw std::invalid_argument(
        fmt::format("cifar: a picture is height x width x channels, not {}", to_string(dims)));
  if (of.label_bytes == 0) throw std::invalid_argument("cifar: a record begins with a label");
  byte_source source{file};
  std::vector<std::uint8_t> record(of.label_bytes + dims.size());
  cifar_records records{{dims, {}}, {{}, file, of.label_bytes - 1, record.size()}};
  std::vector<std::uint8_t>& pixels = records.images.values;
  if (!source.is_packed()) require_whole_records(file, source.most_left(), of);
  while (source.read(record) == record.size()) {
    records.labels.values.push_back(record[of.label_bytes - 1]);
    if (classes > 0 && records.labels.values.back() >= classes) require_below(classes, records.labels);
    pixels.resize(pixels.size() + dims.size());
    interweave(std::span(record).subspan(of.label_bytes), dims[2],
               pixels.data() + pixels.size() - dims.size());
  }
  require_whole_records(file, source.offset(), of);
  pixels.shrink_to_fit();
  return records;
}

dataset join_cifar(cifar_records records, std::size_t classes) {
  if (classes == 0) classes = count_classes(records.labels);
  require_below(classes, records.labels);
  return {std::move(records.images), widened(records.labels), classes};
}

} // namespace mailgrad
