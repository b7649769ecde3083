#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>

namespace mailgrad {
namespace {

/// A GPU may belong to the machine of a worker. Whether it is there is found out where the run begins.
device checked(device d, const std::source_location& line) {
  if (d.kind == device_kind::cuda) return d;
  try {
    require_available(d);
  } catch (const device_error& e) {
    fail_with<graph_error>("{}: device scope: {}", line_of(line), e.what());
  }
  return d;
}

device parsed(std::string_view name, const std::source_location& line) {
  try {
    return parse_device(name);
  } catch (const device_error& e) {
    fail_with<graph_error>("{}: device scope: {}", line_of(line), e.what());
  }
}

bool computes(const graph& g, std::uint32_t id) {
  return std::holds_alternative<operation_node>(g.nodes()[id].what);
}

std::string name_of(const graph& g, std::uint32_t id) {
  return std::string(std::get<operation_node>(g.nodes()[id].what)->name());
}

/// "the matmul of models.cpp:12 on cpu:1"
std::string in_words(const graph& g, const placement& places, std::uint32_t id) {
  return fmt::format("the {} of {} on {}", name_of(g, id), line_of(g.nodes()[id]), to_string(places.of(id)));
}

/// Which devices wait for which others, for the part of a graph that has been walked.
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

  /// Whether a device waits for another one, directly or through others.
  bool waits(std::size_t who, std::size_t for_whom) const { return waits_for_[who][for_whom] != 0; }

private:
  std::vector<std::vector<char>> waits_for_;
};

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

  /// Returns the place of the operand that is computed last: no other operand's device waits for it.
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

const operation_node* operation_of(const graph& g, const value& v) {
  return std::get_if<operation_node>(&g.of(v).what);
}

/// Whether `v` adds two values from two devices. Both must have its shape, since a value that is broadcast is
/// no addend by itself.
bool joins_devices(const graph& g, const placement& places, const value& v) {
  const operation_node* const node = operation_of(g, v);
  if (!node || (*node)->function() != elementwise_function::add) return false;
  const std::vector<value>& operands = g.of(v).inputs;
  for (const value& x : operands)
    if (!operation_of(g, x) || x.dims() != v.dims()) return false;
  return operands.size() == 2 && places.of(operands[0].node()) != places.of(operands[1].node());
}

} // namespace

device_scope::device_scope(graph& g, device where, std::source_location line)
    : scope_(g, checked(where, line)) {}
device_scope::device_scope(graph& g, std::string_view name, std::source_location line)
    : device_scope(g, parsed(name, line), line) {}

placement::placement(const graph& g, device first) {
  placing p(g, first);
  p.run();
  places_ = p.take_places();
  devices_ = p.take_devices();
  if (devices_.empty()) devices_.push_back(first);
}

device placement::of(std::uint32_t node) const {
  if (node >= places_.size())
    fail_with<graph_error>("placement: there is no node {} among the {} that were placed", node,
                           places_.size());
  return devices_[places_[node]];
}

void require_devices(const graph& g, const placement& places, std::span<const device> devices) {
  for (std::uint32_t id = 0; id < g.nodes().size(); ++id) {
    if (!computes(g, id) || std::ranges::find(devices, places.of(id)) != devices.end()) continue;
    std::string known;
    for (const device d : devices) known.append(known.empty() ? "" : ", ").append(to_string(d));
    fail_with<graph_error>("{}: {} is placed on {}, which is no device of its worker; it has {}",
                           line_of(g.nodes()[id]), name_of(g, id), to_string(places.of(id)), known);
  }
}

void require_variables_apart(const graph& g, const placement& places, const value& loss) {
  std::vector<std::optional<std::uint32_t>> reader(
      g.nodes().size()); // by variable: an operation that reads it
  for (std::uint32_t id = 0; id <= loss.node(); ++id) {
    if (!computes(g, id)) continue;
    for (const value& v : g.nodes()[id].inputs) {
      if (!std::holds_alternative<variable_node>(g.of(v).what)) continue;
      auto& other = reader[v.node()];
      if (other && places.of(*other) != places.of(id))
        fail_with<graph_error>(
            "{}: variable '{}' is read by {} and by {}: under hogwild they would "
            "read different values in one step; place them on one device, or take another policy",
            line_of(g.nodes()[id]), g.of(v).name, in_words(g, places, id), in_words(g, places, *other));
      other = id;
    }
  }
}

void require_one_way(const graph& g, const placement& places, const value& loss) {
  device_order order;
  for (std::size_t i = 0; i < places.devices().size(); ++i) order.add_device();
  const auto index_of = [&](std::uint32_t id) {
    return static_cast<std::size_t>(std::ranges::find(places.devices(), places.of(id)) -
                                    places.devices().begin());
  };
  for (std::uint32_t id = 0; id <= loss.node(); ++id) {
    if (!computes(g, id)) continue;
    for (const value& v : g.nodes()[id].inputs) {
      if (!computes(g, v.node())) continue;
      if (order.waits(index_of(v.node()), index_of(id)))
        fail_with<graph_error>(
            "{0}: {1} on {2} reads {3}, which itself waits for {2}: the stages of a pipeline must follow one "
            "another; place it on {4} too",
            line_of(g.nodes()[id]), name_of(g, id), to_string(places.of(id)), in_words(g, places, v.node()),
            to_string(places.of(v.node())));
      order.add_wait(index_of(id), index_of(v.node()));
    }
  }
}

/// Follows only the left operands. Adding a, b and c in order gives the same bits as (a + b) + c, but not as
/// a + (b + c).
std::vector<value> addends_on_devices(const graph& g, const placement& places, const value& sum) {
  std::vector<value> found;
  value first = sum;
  for (; joins_devices(g, places, first); first = g.of(first).inputs[0])
    found.insert(found.begin(), g.of(first).inputs[1]);
  found.insert(found.begin(), first);
  if (found.size() == 1) return found;
  std::vector<device> devices;
  for (const value& v : found) {
    const device where = places.of(v.node());
    if (std::ranges::find(devices, where) != devices.end()) return {sum};
    devices.push_back(where);
  }
  return found;
}

} // namespace mailgrad
