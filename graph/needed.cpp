#include <mailgrad/graph/needed.hpp>

#include <algorithm>

namespace mailgrad {

std::vector<char> needed_for(const graph& g, std::span<const value> wanted, std::span<const value> given) {
  for (const std::span<const value> values : {wanted, given})
    for (const value& v : values)
      if (!g.has(v)) throw graph_error("a value is asked for that another graph made, or none");
  std::vector<char> needed(g.nodes().size(), 0);
  const auto need = [&](const value& v) {
    if (std::ranges::find(given, v) == given.end()) needed[v.node()] = 1;
  };
  std::ranges::for_each(wanted, need);
  for (std::size_t id = needed.size(); id-- > 0;) // a node was added after those it reads
    if (needed[id]) std::ranges::for_each(g.nodes()[id].inputs, need);
  return needed;
}

} // namespace mailgrad
