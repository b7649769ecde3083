#include <mailgrad/graph/parameter_layout.hpp>

#include <mailgrad/tensor/block.hpp>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace mailgrad {

namespace {

constexpr std::size_t line = block::alignment / sizeof(float);

std::size_t round_up(std::size_t floats) { return (floats + line - 1) / line * line; }

/// Of a table: floats in a row.
std::size_t row_width(const placed_variable& v) { return v.dims.size() / v.dims[0]; }

} // namespace

parameter_layout::parameter_layout(const graph& model, const std::vector<bool>& sparse, std::size_t shards) {
  place(model, sparse, false);
  dense_size_ = size_;
  place(model, sparse, true);
  if (size_ == 0) throw std::invalid_argument("the model has no variables to train");
  cut(shards);
}

void parameter_layout::place(const graph& model, const std::vector<bool>& sparse, bool tables) {
  const std::vector<value> all = model.variables();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (sparse[i] != tables) continue;
    const node& n = model.of(all[i]);
    const auto& made = std::get<variable_node>(n.what);
    variables_.push_back({n.name, all[i].dims(), made.first_values, size_, tables});
    size_ += round_up(all[i].dims().size());
  }
}

std::size_t parameter_layout::weight_count() const noexcept {
  std::size_t sum = 0;
  for (const placed_variable& v : variables_) sum += v.dims.size();
  return sum;
}

/// Anywhere on a cache line; in a table only between rows, or behind it.
std::size_t parameter_layout::nearest_cut(std::size_t wanted) const {
  for (const placed_variable& v : variables_) {
    const std::size_t end = v.offset + v.dims.size();
    if (!v.sparse || wanted <= v.offset || wanted >= v.offset + round_up(v.dims.size())) continue;
    const std::size_t rows = (wanted - v.offset + row_width(v) / 2) / row_width(v);
    const std::size_t cut = v.offset + rows * row_width(v);
    return cut >= end ? v.offset + round_up(v.dims.size()) : cut;
  }
  return std::min(size_, round_up(wanted));
}

void parameter_layout::cut(std::size_t shards) {
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= shards; ++i) {
    const std::size_t end = i == shards ? size_ : nearest_cut(size_ * i / shards);
    if (end <= begin)
      throw std::invalid_argument(std::to_string(shards) + " shards are too many for a model of " +
                                  std::to_string(weight_count()) + " weights");
    shards_.push_back({begin, end});
    begin = end;
  }
}

std::vector<variable_piece> parameter_layout::pieces(std::size_t variable) const {
  const placed_variable& v = variables_.at(variable);
  std::vector<variable_piece> found;
  for (std::uint32_t s = 0; s < shards_.size(); ++s) {
    const std::size_t begin = std::max(v.offset, shards_[s].begin);
    const std::size_t end = std::min(v.offset + v.dims.size(), shards_[s].end);
    if (begin < end) found.push_back({s, begin - shards_[s].begin, begin - v.offset, end - begin});
  }
  return found;
}

void parameter_layout::initialise_shard(std::size_t index, std::uint64_t seed,
                                        std::span<float> values) const {
  std::ranges::fill(values, 0.0F);
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    for (const variable_piece& piece : pieces(v)) {
      if (piece.shard != index) continue;
      std::vector<float> whole(variables_[v].dims.size());
      initialise(variables_[v].first_values, seed, variables_[v].name, whole);
      std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(piece.offset_in_variable), piece.length,
                  values.begin() + static_cast<std::ptrdiff_t>(piece.offset_in_shard));
    }
  }
}

std::string parameter_layout::balance_in_words() const {
  std::string text = std::to_string(weight_count()) + " weights in " + std::to_string(shards_.size()) +
                     (shards_.size() == 1 ? " shard" : " shards");
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    char share[64];
    std::snprintf(share, sizeof share, "%s%zu (%.1f %%)", i == 0 ? ": " : ", ", shards_[i].size(),
                  100.0 * static_cast<double>(shards_[i].size()) / static_cast<double>(size_));
    text += share;
  }
  return text;
}

} // namespace mailgrad
