#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>
#include <numeric>

namespace mailgrad {
namespace {

constexpr std::size_t line = block::alignment / sizeof(float);

std::size_t round_up(std::size_t floats) { return (floats + line - 1) / line * line; }

/// The number of floats between two places where a variable may be cut: whole cache lines, and in a table
/// also whole rows.
std::size_t grain(const placed_variable& v) {
  return v.sparse ? std::lcm(line, v.dims.size() / v.dims[0]) : line;
}

/// The places where the flat vector may be cut, numbered from 0, its start, to last(), its end.
class cut_places {
public:
  explicit cut_places(const std::vector<placed_variable>& variables) {
    for (const placed_variable& v : variables) {
      runs_.push_back({last_, v.offset, v.offset + round_up(v.dims.size()), grain(v)});
      last_ += (v.dims.size() + grain(v) - 1) / grain(v);
    }
  }

  std::size_t last() const noexcept { return last_; }

  /// The position of a place, in floats.
  std::size_t position(std::size_t place) const {
    const auto r = std::ranges::upper_bound(runs_, place, {}, &run::first) - 1;
    return std::min(r->end, r->begin + (place - r->first) * r->grain);
  }

  std::size_t nearest(std::size_t floats) const {
    const run& r = *(std::ranges::upper_bound(runs_, floats, {}, &run::begin) - 1);
    const std::size_t before = r.first + (floats - r.begin) / r.grain;
    return floats - position(before) <= position(before + 1) - floats ? before : before + 1;
  }

private:
  /// A variable: its first place, and its range and grain in floats.
  struct run {
    std::size_t first, begin, end, grain;
  };
  std::vector<run> runs_;
  std::size_t last_ = 0;
};

std::vector<placed_variable> variables_of(const graph& model, const std::vector<bool>& sparse) {
  const std::vector<value> variables = model.variables();
  if (sparse.size() != variables.size())
    fail_with<std::invalid_argument>(
        "layout: {} words on the gradients of {} variables; one for each is needed", sparse.size(),
        variables.size());
  std::vector<placed_variable> found;
  for (const value& v : variables) {
    const node& n = model.of(v);
    found.push_back(
        {n.name, v.dims(), std::get<variable_node>(n.what).first_values, 0, sparse[found.size()]});
  }
  return found;
}

/// How many shards it takes, none larger than `most` floats. Variables keep their order.
std::size_t shards_needed(const std::vector<placed_variable>& variables, std::size_t most) {
  std::size_t shards = 1;
  std::size_t held = 0;
  for (const placed_variable& v : variables) {
    const std::size_t floats = round_up(v.dims.size());
    if (held + floats > most) {
      ++shards;
      held = 0;
    }
    held += floats;
  }
  return shards;
}

/// The size of the largest shard, made as small as it can be.
std::size_t least_largest(const std::vector<placed_variable>& variables, std::size_t size,
                          std::size_t shards) {
  std::size_t least = 0;
  for (const placed_variable& v : variables) least = std::max(least, round_up(v.dims.size()));
  std::size_t most = size;
  while (least < most) {
    const std::size_t middle = least + (most - least) / 2;
    if (shards_needed(variables, middle) <= shards)
      most = middle;
    else
      least = middle + 1;
  }
  return most;
}

} // namespace

parameter_layout::parameter_layout(const graph& model, const std::vector<bool>& sparse, std::size_t shards,
                                   shard_cuts where)
    : parameter_layout(variables_of(model, sparse), shards, where) {}

parameter_layout::parameter_layout(const std::vector<placed_variable>& variables, std::size_t shards,
                                   shard_cuts where)
    : cuts_(where) {
  place(variables, false);
  dense_size_ = size_;
  place(variables, true);
  if (size_ == 0) throw std::invalid_argument("the model has no variables to train");
  cuts_ == shard_cuts::between_variables ? cut_between(shards) : cut(shards);
}

void parameter_layout::place(const std::vector<placed_variable>& all, bool tables) {
  for (const placed_variable& v : all) {
    if (v.sparse != tables) continue;
    if (v.dims.size() == 0)
      fail_with<std::invalid_argument>("variable '{}' of shape {} holds no weights", v.name,
                                       to_string(v.dims));
    if (v.sparse && v.dims.rank() == 0)
      fail_with<std::invalid_argument>("variable '{}' is a scalar, whose gradient has no rows", v.name);
    variables_.push_back(v);
    variables_.back().offset = size_;
    size_ += round_up(v.dims.size());
  }
}

std::size_t parameter_layout::weight_count() const noexcept {
  std::size_t sum = 0;
  for (const placed_variable& v : variables_) sum += v.dims.size();
  return sum;
}

/// Puts each cut at the place nearest to its share of the floats, but leaves one place for each later cut.
void parameter_layout::cut(std::size_t shards) {
  const cut_places places(variables_);
  if (shards == 0 || shards > places.last())
    fail_with<std::invalid_argument>(
        "{} shards cannot be cut from a model of {} weights; it has room for 1 to {}", shards, weight_count(),
        places.last());
  std::size_t place = 0;
  for (std::size_t i = 1; i <= shards; ++i) {
    const std::size_t begin = places.position(place);
    place = i == shards
                ? places.last()
                : std::clamp(places.nearest(size_ * i / shards), place + 1, places.last() - (shards - i));
    shards_.push_back({begin, places.position(place)});
  }
}

/// Fills one shard after the other up to the least size of the largest, but leaves a variable for each later
/// shard.
void parameter_layout::cut_between(std::size_t shards) {
  if (shards == 0 || shards > variables_.size())
    fail_with<std::invalid_argument>(
        "{} shards cannot be cut between the variables of a model of {}; it has room for 1 to {}", shards,
        variables_.size(), variables_.size());
  const std::size_t most = least_largest(variables_, size_, shards);
  std::size_t begin = 0;
  std::size_t end = 0;
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    const std::size_t floats = round_up(variables_[v].dims.size());
    const bool needed_later = variables_.size() - v < shards - shards_.size();
    if (end > begin && (end + floats - begin > most || needed_later)) {
      shards_.push_back({begin, end});
      begin = end;
    }
    end += floats;
  }
  shards_.push_back({begin, end});
}

shard_range parameter_layout::shard(std::size_t index) const {
  if (index < shards_.size()) return shards_[index];
  fail_with<std::out_of_range>("layout: shard {} of {}", index, shards_.size());
}

std::vector<variable_piece> parameter_layout::pieces(std::size_t variable) const {
  if (variable >= variables_.size())
    fail_with<std::out_of_range>("layout: variable {} of {}", variable, variables_.size());
  const placed_variable& v = variables_[variable];
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
  if (index >= shards_.size() || values.size() < shards_[index].size())
    fail_with<std::invalid_argument>(
        "layout: room for {} weights cannot take shard {} of {}{}", values.size(), index, shards_.size(),
        index < shards_.size() ? fmt::format(", which has {}", shards_[index].size()) : "");
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

std::size_t parameter_layout::weight_count(std::size_t shard) const {
  std::size_t sum = 0;
  for (std::size_t v = 0; v < variables_.size(); ++v)
    for (const variable_piece& piece : pieces(v))
      if (piece.shard == shard) sum += piece.length;
  return sum;
}

std::string parameter_layout::format_balance() const {
  constexpr std::size_t most_listed = 8;
  const std::size_t all = weight_count();
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < shards_.size(); ++i) parts.push_back(weight_count(i));
  const bool whole = cuts_ == shard_cuts::between_variables;
  const auto share = [all](std::size_t part) {
    return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(all));
  };
  const auto in_words = [&](std::size_t part) {
    const std::string bytes = whole ? byte_count(part * sizeof(float)).text() + std::string(", ") : "";
    return fmt::format("{} ({}{})", part, bytes, share(part));
  };
  std::string text = fmt::format("{} weights in {} {}{}", all, parts.size(),
                                 parts.size() == 1 ? "shard" : "shards", whole ? " of whole variables" : "");
  if (parts.size() > most_listed) {
    const auto [least, most] = std::ranges::minmax(parts);
    return fmt::format("{}{} {} to {}", text, whole ? ":" : " of", in_words(least), in_words(most));
  }
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? ": " : ", ") + in_words(parts[i]);
  if (whole) text += fmt::format("; the largest has {}", share(std::ranges::max(parts)));
  return text;
}

bool operator==(const parameter_layout& a, const parameter_layout& b) noexcept {
  const auto same_place = [](const placed_variable& x, const placed_variable& y) {
    return x.name == y.name && x.dims == y.dims && x.sparse == y.sparse; // offsets follow from these
  };
  return std::ranges::equal(a.variables_, b.variables_, same_place) &&
         std::ranges::equal(a.shards_, b.shards_, {}, &shard_range::end, &shard_range::end);
}

std::vector<float> first_weights(const parameter_layout& layout, std::uint64_t seed) {
  std::vector<float> all(layout.size());
  for (std::size_t s = 0; s < layout.shard_count(); ++s) {
    const shard_range range = layout.shard(s);
    layout.initialise_shard(s, seed, std::span(all).subspan(range.begin, range.size()));
  }
  return all;
}

} // namespace mailgrad
