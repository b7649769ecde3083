#include <mailgrad/graph/placement.hpp>

#include <algorithm>
#include <string>

namespace mailgrad {

namespace {

bool computes(const graph& g, std::uint32_t id) {
  return std::holds_alternative<operation_node>(g.nodes()[id].what);
}

/// Which of a few devices wait for which, as far as a graph has been walked.
class device_order {
public:
  void add_device() {
    for (auto& row : waits_for_) row.push_back(0);
    waits_for_.emplace_back(waits_for_.size() + 1, 0);
  }

  void add_wait(std::size_t who, std::size_t for_whom) {
    if (who == for_whom || waits(who, for_whom)) return;
    for (std::size_t a = 0; a < waits_for_.size(); ++a)
      for (std::size_t b = 0; b < waits_for_.size(); ++b)
        if ((a == who || waits(a, who)) && (b == for_whom || waits(for_whom, b))) waits_for_[a][b] = 1;
  }

  /// Directly or by way of others.
  bool waits(std::size_t who, std::size_t for_whom) const { return waits_for_[who][for_whom] != 0; }

private:
  std::vector<std::vector<char>> waits_for_;
};

/// Walks a graph in its order and decides for each operation.
class placing {
public:
  placing(const graph& g, device first) : graph_(g), first_(first), places_(g.nodes().size(), 0) {}

  void run() {
    for (std::uint32_t id = 0; id < places_.size(); ++id)
      if (computes(graph_, id)) place(id);
  }

  std::vector<std::size_t> take_places() { return std::move(places_); }
  std::vector<device> take_devices() { return std::move(devices_); }

private:
  void place(std::uint32_t id) {
    const node& n = graph_.nodes()[id];
    if (const auto* fixed = std::get_if<device>(&n.place))
      places_[id] = index_of(*fixed);
    else if (const auto* other = std::get_if<beside>(&n.place))
      places_[id] = places_[other->node];
    else
      places_[id] = last_of_operands(n);
    for (const value& v : n.inputs)
      if (computes(graph_, v.node())) order_.add_wait(places_[id], places_[v.node()]);
  }

  /// That of the operand which no other operand's device waits for.
  std::size_t last_of_operands(const node& n) {
    std::optional<std::size_t> last;
    for (const value& v : n.inputs) {
      if (!computes(graph_, v.node())) continue;
      const std::size_t at = places_[v.node()];
      if (!last || order_.waits(at, *last)) last = at;
    }
    return last ? *last : index_of(first_);
  }

  std::size_t index_of(device d) {
    const auto known = std::ranges::find(devices_, d);
    if (known != devices_.end()) return static_cast<std::size_t>(known - devices_.begin());
    devices_.push_back(d);
    order_.add_device();
    return devices_.size() - 1;
  }

  const graph& graph_;
  device first_;
  std::vector<std::size_t> places_;
  std::vector<device> devices_;
  device_order order_;
};

} // namespace

placement::placement(const graph& g, device first) {
  placing p(g, first);
  p.run();
  places_ = p.take_places();
  devices_ = p.take_devices();
  if (devices_.empty()) devices_.push_back(first);
}

void require_one_way(const graph& g, const placement& places, const value& loss) {
  device_order order;
  for (std::size_t i = 0; i < places.devices().size(); ++i) order.add_device();
  const auto index_of = [&](device d) {
    return static_cast<std::size_t>(std::ranges::find(places.devices(), d) - places.devices().begin());
  };
  for (std::uint32_t id = 0; id <= loss.node(); ++id) {
    if (!computes(g, id)) continue;
    const node& n = g.nodes()[id];
    for (const value& v : n.inputs) {
      if (!computes(g, v.node())) continue;
      const device here = places.of(id);
      const device there = places.of(v.node());
      if (order.waits(index_of(there), index_of(here))) {
        const node& operand = g.of(v);
        throw graph_error(
            line_of(n.where) + ": " + std::string(std::get<operation_node>(n.what)->name()) + " on " +
            to_string(here) + " reads the " + std::string(std::get<operation_node>(operand.what)->name()) +
            " of " + line_of(operand.where) + " on " + to_string(there) + ", which itself waits for " +
            to_string(here) + ": the pieces of a pipeline must follow one another; place it on " +
            to_string(there) + " too");
      }
      order.add_wait(index_of(here), index_of(there));
    }
  }
}

} // namespace mailgrad
