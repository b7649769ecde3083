#include <mailgrad/engine/model/finite_weights.hpp>

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mailgrad {

namespace {

std::string in_words(const parameter_layout& layout, std::size_t variable, std::size_t index, float weight) {
  const auto pieces = layout.pieces(variable);
  const auto piece = std::ranges::find_if(pieces, [&](const variable_piece& p) {
    return index >= p.offset_in_variable && index < p.offset_in_variable + p.length;
  });
  const char* const found = std::isnan(weight) ? "nan" : weight < 0 ? "-inf" : "inf";
  return fmt::format("weight {} of '{}' on shard {} is {}", index, layout.variables()[variable].name,
                     piece->shard, found);
}

} // namespace

std::optional<std::string> not_finite_in_words(const parameter_layout& layout,
                                               std::span<const float> weights) {
  if (weights.size() != layout.size())
    throw shape_error("not_finite_in_words", shape{weights.size()}, shape{layout.size()});
  for (std::size_t v = 0; v < layout.variables().size(); ++v) {
    const placed_variable& variable = layout.variables()[v];
    const auto values = weights.subspan(variable.offset, variable.dims.size());
    const auto bad = std::ranges::find_if_not(values, [](float w) { return std::isfinite(w); });
    if (bad != values.end()) return in_words(layout, v, static_cast<std::size_t>(bad - values.begin()), *bad);
  }
  return std::nullopt;
}

} // namespace mailgrad
