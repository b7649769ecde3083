#include <mailgrad/engine/model/weight_addresses.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace mailgrad {

weight_addresses::weight_addresses(const parameter_layout& layout)
    : places_(layout.shard_count()), addresses_(layout.variables().size(), nullptr),
      joined_(layout.variables().size()) {
  for (std::size_t v = 0; v < layout.variables().size(); ++v) {
    const auto pieces = layout.pieces(v);
    const bool whole = pieces.size() == 1;
    if (!whole) {
      joined_[v] = block(layout.variables()[v].dims.size() * sizeof(float));
      addresses_[v] = joined_[v].as<float>().data();
    }
    for (const variable_piece& piece : pieces) places_[piece.shard].push_back({v, piece, whole});
  }
}

weight_addresses weight_addresses::in_one_piece(const parameter_layout& layout, const float* values) {
  weight_addresses made;
  for (const placed_variable& v : layout.variables()) made.addresses_.push_back(values + v.offset);
  return made;
}

void weight_addresses::use(std::uint32_t shard, const float* values) {
  if (shard >= places_.size() || values == nullptr)
    throw std::invalid_argument(fmt::format("weights: {} for shard {} of {}", values ? "values" : "no values",
                                            shard, places_.size()));
  for (const place& p : places_[shard]) {
    const float* from = values + p.piece.offset_in_shard;
    if (p.whole)
      addresses_[p.variable] = from;
    else
      std::copy_n(from, p.piece.length, joined_[p.variable].as<float>().data() + p.piece.offset_in_variable);
  }
}

} // namespace mailgrad
