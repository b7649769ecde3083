#include <mailgrad/graph/placement/partition.hpp>

#include <algorithm>
#include <compare>
#include <map>

namespace mailgrad {
namespace {

/// The largest number of times that a chain of operands changes its device before an operation, and the
/// device of the operation. In the order of these keys, segments come after those they read.
struct segment_key {
  std::size_t crossings = 0;
  std::size_t where = 0; ///< index in placement::devices()
  friend auto operator<=>(const segment_key&, const segment_key&) = default;
};

void add_once(std::vector<value>& list, const value& v) {
  if (std::ranges::find(list, v) == list.end()) list.push_back(v);
}

class cutting {
public:
  cutting(const graph& g, const placement& places, std::span<const wanted_value> wanted)
      : graph_(g), places_(places), wanted_(wanted), keys_(g.nodes().size()) {
    for (const wanted_value& w : wanted)
      if (!g.has(w.what)) throw graph_error("partition: a wanted value belongs to another graph");
  }

  std::vector<segment> run() {
    std::vector<value> values;
    for (const wanted_value& w : wanted_) values.push_back(w.what);
    needed_ = needed_for(graph_, values);
    for (std::uint32_t id = 0; id < keys_.size(); ++id)
      if (needed_[id] && computes(id)) find_key(id);
    move_constants();
    for (std::uint32_t id = 0; id < keys_.size(); ++id)
      if (needed_[id] && computes(id)) numbers_.emplace(keys_[id], 0);
    if (numbers_.empty()) numbers_.emplace(segment_key{}, 0); // nothing but sources is wanted
    for (std::size_t number = 0; auto& [key, place] : numbers_) {
      place = number++;
      segments_.push_back({places_.devices()[key.where], {}, {}, {}, {}});
    }
    for (std::uint32_t id = 0; id < keys_.size(); ++id)
      if (needed_[id] && computes(id)) connect(graph_.nodes()[id].inputs, number_of(id));
    deliver();
    for (std::size_t number = 0; number < segments_.size(); ++number) {
      auto& reads = segments_[number].reads;
      std::ranges::sort(reads);
      if (!reads.empty() && reads.back() >= number)
        throw graph_error(
            "partition: a value is wanted beside one that is computed before it, on another device; place "
            "both on one device");
    }
    return std::move(segments_);
  }

private:
  bool computes(std::uint32_t id) const {
    return std::holds_alternative<operation_node>(graph_.nodes()[id].what);
  }
  std::size_t number_of(std::uint32_t id) const { return numbers_.at(keys_[id]); }

  void find_key(std::uint32_t id) {
    const auto& devices = places_.devices();
    segment_key& key = keys_[id];
    key.where = static_cast<std::size_t>(std::ranges::find(devices, places_.of(id)) - devices.begin());
    for (const value& v : graph_.nodes()[id].inputs) {
      if (!computes(v.node())) continue;
      const segment_key& operand = keys_[v.node()];
      key.crossings = std::max(key.crossings, operand.crossings + (operand.where == key.where ? 0 : 1));
    }
  }

  /// Moves operations that depend only on constants to the first segment of their device that reads them. The
  /// 1 that a backward pass begins with is not worth a segment of its own.
  void move_constants() {
    std::vector<char> fixed(keys_.size(), 0);
    std::vector<std::optional<std::size_t>> first_reader(keys_.size()); // the least crossings of a reader
    std::vector<char> read_elsewhere(keys_.size(), 0);
    for (std::uint32_t id = 0; id < keys_.size(); ++id) {
      const node& n = graph_.nodes()[id];
      fixed[id] =
          std::holds_alternative<constant_node>(n.what) ||
          (computes(id) && std::ranges::all_of(n.inputs, [&](const value& v) { return fixed[v.node()]; }));
    }
    for (std::uint32_t id = static_cast<std::uint32_t>(keys_.size()); id-- > 0;) {
      if (!needed_[id] || !computes(id)) continue;
      if (fixed[id] && first_reader[id] && !read_elsewhere[id]) keys_[id].crossings = *first_reader[id];
      for (const value& v : graph_.nodes()[id].inputs) {
        const std::uint32_t read = v.node();
        if (keys_[read].where != keys_[id].where) read_elsewhere[read] = 1;
        first_reader[read] = std::min(first_reader[read].value_or(keys_[id].crossings), keys_[id].crossings);
      }
    }
  }

  void connect(std::span<const value> values, std::size_t reader) {
    for (const value& v : values) {
      if (!computes(v.node()) || number_of(v.node()) == reader) continue;
      const std::size_t maker = number_of(v.node());
      add_once(segments_[reader].imports, v);
      add_once(segments_[maker].exports, v);
      auto& reads = segments_[reader].reads;
      if (std::ranges::find(reads, maker) == reads.end()) reads.push_back(maker);
    }
  }

  /// A wanted source is delivered beside another value if that is asked for, otherwise by the last segment.
  void deliver() {
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const value& at = wanted_[i].beside.value_or(wanted_[i].what);
      const std::size_t home = computes(at.node()) ? number_of(at.node()) : segments_.size() - 1;
      segments_[home].fetches.push_back(i);
      connect(std::span(&wanted_[i].what, 1), home);
    }
  }

  const graph& graph_;
  const placement& places_;
  std::span<const wanted_value> wanted_;
  std::vector<segment_key> keys_; ///< by node
  std::vector<char> needed_;      ///< by node
  std::map<segment_key, std::size_t> numbers_;
  std::vector<segment> segments_;
};

} // namespace

std::vector<segment> cut_into_segments(const graph& g, const placement& places,
                                       std::span<const wanted_value> wanted) {
  return cutting(g, places, wanted).run();
}

} // namespace mailgrad
