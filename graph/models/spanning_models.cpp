#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/pipeline.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/graph/placement/replicate.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <map>

namespace mailgrad {
namespace {

/// During its lifetime, a model that asks for an input gets a part of the input that the whole batch feeds.
class divided_inputs {
public:
  divided_inputs(graph& g, std::map<std::string, value>& wholes, std::size_t batch, std::size_t begin,
                 std::size_t end)
      : graph_(g), wholes_(wholes), batch_(batch), begin_(begin), end_(end),
        before_(g.exchange_input_source(
            [this](const std::string& name, const value_type& type, std::source_location where) {
              return part_of(name, type, where);
            })) {}
  ~divided_inputs() { graph_.exchange_input_source(std::move(before_)); }
  divided_inputs(const divided_inputs&) = delete;
  divided_inputs& operator=(const divided_inputs&) = delete;

private:
  value part_of(const std::string& name, const value_type& type, std::source_location where) {
    if (type.dims.rank() == 0 || type.dims[0] != end_ - begin_)
      fail_with<graph_error>("{}: input '{}' of shape {} cannot be split over devices: its first extent "
                             "is not the batch, which is {}",
                             line_of(where), name, to_string(type.dims), end_ - begin_);
    const value whole = whole_of(name, type, where);
    return begin_ == 0 && end_ == batch_ ? whole : slice(whole, 0, begin_, end_, where);
  }

  value whole_of(const std::string& name, const value_type& type, std::source_location where) {
    if (const auto known = wholes_.find(name); known != wholes_.end()) return known->second;
    shape dims = type.dims;
    dims[0] = batch_;
    const input_source here = graph_.exchange_input_source(std::move(before_)); // the enclosing source
    const value whole = graph_.input(name, dims, type.type, where);
    before_ = graph_.exchange_input_source(here);
    return wholes_.emplace(name, whole).first->second;
  }

  graph& graph_;
  std::map<std::string, value>& wholes_;
  std::size_t batch_, begin_, end_;
  input_source before_;
};

constexpr std::size_t usual_batch = 64;

/// Computes the stages for a fixed batch. The costs depend on the batch, and if the cut moved with it, the
/// gradient of a variable would be split over two devices.
std::vector<std::optional<std::uint32_t>> usual_stages(const model_function& model, model_request request) {
  graph sketch;
  request.batch = usual_batch;
  return stages_of(sketch, build_model(model, sketch, request).loss, request.devices.size());
}

/// Returns the seed of one part of the batch, so that the parts draw different numbers.
std::uint64_t seed_of_part(std::uint64_t seed, std::size_t part) {
  return seed ^ (std::uint64_t{part} << 48);
}

void require_spanned(const model_request& request) {
  if (request.devices.empty()) throw graph_error("the request names no device to build for");
}

model_outputs build_replicas(const model_function& model, graph& g, const model_request& request) {
  if (request.nonzeros > 0)
    throw graph_error(
        "replicate: rows that are mostly zero cannot be split; give each device a worker of its own");
  const std::vector<std::size_t> sizes = batch_parts(request.batch, request.devices.size());
  std::map<std::string, value> wholes;
  std::vector<value> logits;
  std::optional<value> loss;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const device_scope here(g, request.devices[i]);
    const divided_inputs parts(g, wholes, request.batch, begin, begin + sizes[i]);
    model_request part = request;
    part.batch = sizes[i];
    part.devices = {request.devices[i]};
    part.seed = seed_of_part(request.seed, i);
    const model_outputs made = build_model(model, g, part);
    logits.push_back(made.logits);
    const value share = made.loss * (static_cast<float>(sizes[i]) / static_cast<float>(request.batch));
    loss = loss ? *loss + share : share;
    begin += sizes[i];
  }
  if (sizes.size() == 1) return {logits.front(), *loss};
  return {concat(logits, 0), *loss};
}

} // namespace

model_function replicated(model_function model) {
  return [model = std::move(model)](graph& g, const model_request& request) {
    require_spanned(request);
    return request.devices.size() == 1 ? build_model(model, g, request) : build_replicas(model, g, request);
  };
}

model_function pipelined(model_function model) {
  return [model = std::move(model)](graph& g, const model_request& request) {
    require_spanned(request);
    const model_outputs made = build_model(model, g, request);
    if (request.devices.size() == 1) return made;
    const auto stages = usual_stages(model, request);
    if (stages.size() != g.nodes().size())
      fail_with<graph_error>("pipeline: the model has {} operations for a batch of {} and {} for one of {}; "
                             "place them by scopes",
                             g.nodes().size(), request.batch, stages.size(), usual_batch);
    place_in_stages(g, stages, request.devices);
    return made;
  };
}

} // namespace mailgrad
