#include <mailgrad/graph/placement/pipeline.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mailgrad {
namespace {

/// How far a cut may be from the best balance if it sends fewer bytes, as a part of one stage's work.
constexpr double tolerance = 0.02;

/// The operations that the loss needs, in their order, with their work and the bytes that a cut behind each
/// would send.
struct forward_pass {
  std::vector<std::uint32_t> operations;
  std::vector<double> work_until;  ///< work of the operations up to each, including it
  std::vector<double> bytes_after; ///< bytes that operations behind the cut read from those before it
};

double work_of(const graph& g, const node& n) {
  std::vector<value_type> inputs;
  for (const value& v : n.inputs) inputs.push_back(g.of(v).outputs[v.output()]);
  return std::get<operation_node>(n.what)->work(inputs, n.outputs);
}

forward_pass walk(const graph& g, const value& loss) {
  const std::vector<char> needed = needed_for(g, {&loss, 1});
  std::vector<std::uint32_t> last_reader(g.nodes().size(), 0);
  forward_pass f;
  double work = 0;
  for (std::uint32_t id = 0; id < g.nodes().size(); ++id) {
    const node& n = g.nodes()[id];
    if (!needed[id] || !std::holds_alternative<operation_node>(n.what)) continue;
    for (const value& v : n.inputs) last_reader[v.node()] = id;
    f.operations.push_back(id);
    f.work_until.push_back(work += work_of(g, n));
  }
  for (const std::uint32_t cut : f.operations) {
    double bytes = 0;
    for (const std::uint32_t id : f.operations)
      if (id <= cut && last_reader[id] > cut)
        for (const value_type& t : g.nodes()[id].outputs)
          bytes += static_cast<double>(t.dims.size() * byte_size(t.type));
    f.bytes_after.push_back(bytes);
  }
  return f;
}

/// Returns the last operation of stage `stage`. It is the nearest to the stage's share of the work, or one
/// nearly as near that sends fewer bytes.
std::size_t end_of_stage(const forward_pass& f, std::size_t first, std::size_t stage, std::size_t stages) {
  const double total = f.work_until.back();
  const double share = total * static_cast<double>(stage + 1) / static_cast<double>(stages);
  const std::size_t last =
      f.operations.size() - (stages - stage); // leaves one operation for each stage to come
  const auto off = [&](std::size_t i) { return std::abs(f.work_until[i] - share); };
  double nearest = std::numeric_limits<double>::infinity();
  for (std::size_t i = first; i <= last; ++i) nearest = std::min(nearest, off(i));
  std::size_t best = last;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = first; i <= last; ++i) {
    if (off(i) > nearest + tolerance * total / static_cast<double>(stages) || f.bytes_after[i] >= least)
      continue;
    best = i;
    least = f.bytes_after[i];
  }
  return best;
}

} // namespace

std::vector<std::optional<std::uint32_t>> stages_of(const graph& g, const value& loss, std::size_t count,
                                                    std::source_location where) {
  const forward_pass f = walk(g, loss);
  if (count == 0 || f.operations.size() < count)
    fail_with<graph_error>("{}: a pipeline of {} stages from a model of {} operations; each stage needs one",
                           line_of(where), count, f.operations.size());
  std::vector<std::optional<std::uint32_t>> stages(g.nodes().size());
  std::size_t first = 0;
  for (std::size_t stage = 0; stage < count; ++stage) {
    const std::size_t last =
        stage + 1 == count ? f.operations.size() - 1 : end_of_stage(f, first, stage, count);
    for (std::size_t i = first; i <= last; ++i) stages[f.operations[i]] = static_cast<std::uint32_t>(stage);
    first = last + 1;
  }
  return stages;
}

void place_in_stages(graph& g, std::span<const std::optional<std::uint32_t>> stages,
                     std::span<const device> devices) {
  if (stages.size() > g.nodes().size())
    fail_with<graph_error>("pipeline: stages of {} nodes for a graph of {}", stages.size(), g.nodes().size());
  for (const auto& stage : stages)
    if (stage && *stage >= devices.size())
      fail_with<graph_error>("pipeline: stage {} is placed on one of {} devices; name one for each stage",
                             *stage, devices.size());
  for (std::uint32_t id = 0; id < stages.size(); ++id)
    if (stages[id] && !std::holds_alternative<device>(g.nodes()[id].place))
      g.place_node(id, devices[*stages[id]]);
}

} // namespace mailgrad
