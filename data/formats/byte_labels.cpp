#include <mailgrad/data/formats/byte_labels.hpp>

#include <mailgrad/files/file_error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mailgrad {

std::size_t count_classes(const byte_labels& labels) {
  std::array<bool, 256> occurs{};
  for (std::uint8_t label : labels.values) occurs[label] = true;
  const auto first = std::ranges::find(occurs, true);
  const auto gap = std::find(first, occurs.end(), false);
  const auto beyond = std::find(gap, occurs.end(), true);
  const auto classes = static_cast<std::size_t>(gap - occurs.begin());
  if (beyond != occurs.end()) require_below(classes, labels);
  return classes;
}

void require_below(std::size_t classes, const byte_labels& labels) {
  const auto wrong =
      std::ranges::find_if(labels.values, [=](std::uint8_t label) { return label >= classes; });
  if (wrong == labels.values.end()) return;
  const auto index = static_cast<std::uint64_t>(wrong - labels.values.begin());
  throw_malformed(labels.file, file_offset{labels.first + index * labels.stride},
                  fmt::format("expected a label from 0 to {}, found {}", classes - 1, *wrong));
}

std::vector<std::int32_t> widened(const byte_labels& labels) {
  return {labels.values.begin(), labels.values.end()};
}

} // namespace mailgrad
