#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/variable_union.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

namespace mailgrad {

std::size_t room_for_entries(const dataset& samples, std::size_t batch) {
  return samples.is_sparse() ? std::max<std::size_t>(1, max_nonzeros(samples, batch)) : 0;
}

namespace {

std::vector<input_request> inputs_of(const dataset& samples) {
  std::vector<input_request> inputs;
  if (const named_arrays* arrays = samples.arrays())
    for (const auto& [name, values] : arrays->all())
      inputs.push_back({name, {values.sample_dims(), values.type()}});
  return inputs;
}

const char* in_words(feature_kind kind) { return kind == feature_kind::tokens ? "tokens" : "numbers"; }
const char* in_words(answer wanted) { return wanted == answer::a_number ? "numbers" : "classes"; }

template <class A, class B>
void require_equal(const char* what, const A& found, const B& expected) {
  if (std::string(found) != std::string(expected))
    throw std::invalid_argument(
        fmt::format("data: {} of {}, where the model was built for {}", what, found, expected));
}

std::string in_words(std::span<const std::size_t> counts) {
  std::string text;
  for (const std::size_t n : counts) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return text.empty() ? "none" : text;
}

/// "'image' float32 28x28x1, 'meta' float32 4"
std::string in_words(std::span<const input_request> inputs) {
  std::string text;
  for (const input_request& i : inputs)
    text += (text.empty() ? "'" : ", '") + i.name + "' " + to_string(i.sample);
  return text.empty() ? "none" : text;
}

/// The index of the named input that feeds `input`, if the batches have named inputs.
std::optional<std::size_t> find_input(std::string_view input, const model_request& request) {
  const auto found = std::ranges::find(request.inputs, input, &input_request::name);
  if (found == request.inputs.end()) return std::nullopt;
  return static_cast<std::size_t>(found - request.inputs.begin());
}

/// The part of a batch with this name; null if there is none.
const tensor batch::*find_own_part(std::string_view input) {
  static constexpr std::array<std::pair<std::string_view, const tensor batch::*>, 6> parts{
      {{batch_input::features, &batch::features},
       {batch_input::columns, &batch::columns},
       {batch_input::values, &batch::values},
       {batch_input::offsets, &batch::offsets},
       {batch_input::categories, &batch::categories},
       {batch_input::labels, &batch::labels}}};
  const auto found = std::ranges::find(parts, input, [](const auto& part) { return part.first; });
  return found != parts.end() ? found->second : nullptr;
}

constexpr const char* no_part =
    "is not part of a batch, which has features, columns, values, offsets, categories and labels";

/// The part of a batch that feeds `input`; none if no batch has one of that name.
std::optional<batch_part> find_part(std::string_view input, const model_request& request) {
  if (const auto number = find_input(input, request)) return batch_part(*number);
  if (const auto own = find_own_part(input)) return batch_part(own);
  return std::nullopt;
}

/// "'image', 'meta' and 'labels'"
std::string names_of_inputs(const model_request& request) {
  std::string text;
  for (const input_request& i : request.inputs)
    text.append(text.empty() ? "'" : ", '").append(i.name) += '\'';
  return text + " and 'labels'";
}

/// The extents of a batch: the number of samples, then those of one sample.
shape in_batch(const model_request& request, const shape& sample) {
  std::vector<std::size_t> extents{request.batch};
  extents.insert(extents.end(), sample.begin(), sample.end());
  return shape(extents);
}

/// The shape and type of the part of a batch that feeds this input; none if no batch has such a part.
std::optional<value_type> type_of_part(std::string_view input, const model_request& request) {
  const bool tokens = request.features == feature_kind::tokens;
  const bool sparse = request.nonzeros > 0;
  if (input == batch_input::labels)
    return value_type{in_batch(request, tokens ? request.sample_dims : request.target_dims),
                      request.wanted == answer::a_number ? dtype::float32 : dtype::int32};
  if (const auto number = find_input(input, request)) {
    const value_type& sample = request.inputs[*number].sample;
    return value_type{in_batch(request, sample.dims), sample.type};
  }
  if (!request.inputs.empty()) return std::nullopt;
  if (input == batch_input::categories && !request.categories.empty())
    return value_type{{request.batch, request.categories.size()}, dtype::int32};
  if (input == batch_input::features && !sparse)
    return value_type{in_batch(request, request.sample_dims), tokens ? dtype::int32 : dtype::float32};
  if (!sparse) return std::nullopt;
  if (input == batch_input::columns) return value_type{{request.nonzeros}, dtype::int32};
  if (input == batch_input::values) return value_type{{request.nonzeros}, dtype::float32};
  if (input == batch_input::offsets) return value_type{{request.batch + 1}, dtype::int32};
  return std::nullopt;
}

/// Checks the shape and type of an input. A batch is bound by address, so a wrong shape would read beyond it.
void require_fitting(const std::string& name, const value_type& found, const std::string& line,
                     const model_request& request) {
  const std::string input = line + ": input '" + name + "' of the model ";
  const auto expected = type_of_part(name, request);
  if (!expected && !request.inputs.empty())
    throw graph_error(input + "is none of this data set's, which are " + names_of_inputs(request));
  if (!find_part(name, request)) throw graph_error(input + no_part);
  if (!expected) throw graph_error(input + "reads what this data set has none of");
  if (found.type != expected->type)
    throw graph_error(
        input + "is " + std::string(to_string(found.type)) + ", where the data set has " +
        std::string(to_string(expected->type)) +
        (name == batch_input::labels && expected->type == dtype::float32 ? ", numbers to predict" : ""));
  if (found.dims != expected->dims)
    throw graph_error(input + "has shape " + to_string(found.dims) + ", where a batch of " +
                      std::to_string(request.batch) + (request.batch == 1 ? " sample" : " samples") +
                      " has " + to_string(expected->dims) +
                      "; take the extents from the model_request, and reshape behind the input");
}

/// While it lives, inputs are checked when the model creates them, before an operation says less of them.
class compared_inputs {
public:
  compared_inputs(graph& g, const model_request& request) : graph_(g), request_(request) {
    graph_.exchange_input_source([this](const std::string& name, const value_type& type,
                                        std::source_location where) { return add(name, type, where); });
  }
  ~compared_inputs() { graph_.exchange_input_source({}); }
  compared_inputs(const compared_inputs&) = delete;
  compared_inputs& operator=(const compared_inputs&) = delete;

private:
  value add(const std::string& name, const value_type& type, std::source_location where) {
    require_fitting(name, type, graph_.line_at(where), request_);
    const input_source here = graph_.exchange_input_source({});
    const value added = graph_.input(name, type.dims, type.type, where);
    graph_.exchange_input_source(here);
    return added;
  }

  graph& graph_;
  const model_request& request_;
};

[[noreturn, gnu::cold, gnu::noinline]] void refuse(const shape& found, const shape& expected) {
  throw graph_error(fmt::format(
      "the batch has {} for an input of shape {}; the model was built for other samples than these",
      to_string(found), to_string(expected)));
}

bool lies_in(const placed_variable& v, const shard_range& range) {
  return v.offset + v.dims.size() > range.begin && v.offset < range.end;
}

bool lies_whole_in(const placed_variable& v, const shard_range& range) {
  return v.offset >= range.begin && v.offset + v.dims.size() <= range.end;
}

std::vector<shard_variable> variables_in(const parameter_layout& layout, const shard_range& range) {
  std::vector<shard_variable> found;
  for (const placed_variable& v : layout.variables()) {
    if (!lies_in(v, range)) continue;
    if (!lies_whole_in(v, range))
      throw std::invalid_argument(
          fmt::format("shard: variable '{}' is cut, and the optimizer looks at whole ones", v.name));
    found.push_back({v.name, v.dims, v.offset - range.begin, v.sparse});
  }
  return found;
}

std::size_t add(training_fetches& list, const value& v) {
  list.fetches.push_back(v);
  return list.fetches.size() - 1;
}

void add_sparse(training_fetches& list, const graph& g, std::size_t variable, const sparse_rows& part,
                const model_request& request) {
  const shape& dims = part.values.dims();
  sparse_fetch f{variable, dims.back(), part.rows.dims().size(), add(list, part.values), {}, {}};
  const node& rows = g.of(part.rows);
  if (std::holds_alternative<input_node>(rows.what))
    f.rows_in_batch = part_for(rows.name, request);
  else
    f.rows = add(list, part.rows);
  list.sparse.push_back(std::move(f));
}

} // namespace

model_request request_for(const data_split& data, std::size_t batch) {
  model_request request;
  request.sample_dims = data.train.sample_dims();
  request.features = data.train.is_tokens() ? feature_kind::tokens : feature_kind::numbers;
  const auto categories = data.train.category_counts();
  request.categories.assign(categories.begin(), categories.end());
  request.inputs = inputs_of(data.train);
  request.target_dims = data.train.target_dims();
  request.wanted = data.train.has_targets() ? answer::a_number : answer::a_class;
  request.classes = data.train.classes();
  request.batch = batch;
  request.nonzeros = room_for_entries(data.train, batch);
  return request;
}

void require_readable(const model_request& request, const dataset& samples) {
  const feature_kind kind = samples.is_tokens() ? feature_kind::tokens : feature_kind::numbers;
  require_equal("named inputs", in_words(inputs_of(samples)), in_words(request.inputs));
  require_equal("samples", in_words(kind), in_words(request.features));
  require_equal("samples", to_string(samples.sample_dims()), to_string(request.sample_dims));
  require_equal("categories", in_words(samples.category_counts()), in_words(request.categories));
  require_equal("labels", in_words(samples.has_targets() ? answer::a_number : answer::a_class),
                in_words(request.wanted));
  require_equal("targets", to_string(samples.target_dims()), to_string(request.target_dims));
  if (!samples.has_targets() && samples.classes() > request.classes)
    throw std::invalid_argument(fmt::format("data: labels of {} classes, where the model was built for {}",
                                            samples.classes(), request.classes));
}

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

batch_part part_for(std::string_view input, const model_request& request) {
  if (const auto part = find_part(input, request)) return *part;
  throw graph_error("input '" + std::string(input) + "' " + no_part);
}

model_outputs build_fitting(const model_function& build, graph& g, const model_request& request) {
  const compared_inputs compared(g, request);
  return build_model(build, g, request);
}

bound_model::bound_model(const model_function& build, const model_request& request,
                         const parameter_layout& layout, const choose_fetches& choose)
    : bound_model(build, request, layout, choose,
                  compile([](const graph& g, const std::vector<value>& fetches) {
                    return std::make_unique<program>(g, fetches);
                  })) {}

bound_model::bound_model(const model_function& build, const model_request& request,
                         const parameter_layout& layout, const choose_fetches& choose, device_queue& place)
    : bound_model(build, request, layout, choose,
                  compile([&place](const graph& g, const std::vector<value>& fetches) {
                    return std::make_unique<program>(g, fetches, std::span<const value>(), place);
                  })) {}

bound_model::bound_model(const model_function& build, const model_request& request,
                         const parameter_layout& layout, const choose_fetches& choose, const compile& made)
    : graph_(std::make_unique<graph>()) {
  const model_outputs outputs = build_fitting(build, *graph_, request);
  const std::vector<value> fetches = choose(*graph_, outputs);
  program_ = made(*graph_, fetches);
  sources_.emplace(*graph_, *program_, layout, request);
}

bound_sources::bound_sources(const graph& g, const program& code, const parameter_layout& layout,
                             const model_request& request) {
  for (const value& v : g.inputs()) {
    if (!code.needs(v)) continue;
    const std::string& name = g.of(v).name;
    require_fitting(name, v.type(), line_of(g.of(v)), request);
    inputs_.push_back({v, part_for(name, request), v.dims()});
  }
  for (const value& v : g.variables()) {
    const std::string& name = g.of(v).name;
    const auto& placed = layout.variables();
    const auto found = std::ranges::find(placed, name, &placed_variable::name);
    if (found == placed.end() || !(found->dims == v.dims()))
      throw graph_error(
          fmt::format("{}: variable '{}' of shape {} is not in the layout of this run{}", line_of(g.of(v)),
                      name, to_string(v.dims()),
                      found == placed.end() ? "" : ", which has it with shape " + to_string(found->dims)));
    variables_.push_back({v, static_cast<std::size_t>(found - placed.begin())});
  }
}

const std::byte* bound_sources::input_binding::in(const batch& inputs) const {
  const tensor& found = part.of(inputs);
  if (found.dims() != dims && dims.size() > 0) refuse(found.dims(), dims);
  return found.data();
}

void bound_sources::bind(program& code, const batch& inputs, const weight_addresses& weights) const {
  for (const input_binding& b : inputs_) code.bind(b.what, b.in(inputs));
  for (const variable_binding& b : variables_) code.bind(b.what, weights.of(b.index));
}

void bound_sources::stage(const batch& inputs, std::byte* to) const {
  lay_side_by_side([&](const input_binding& input, std::size_t place) {
    std::memcpy(to + place, input.in(inputs), input.bytes());
  });
}

void bound_sources::bind_staged(program& code, const std::byte* from) const {
  lay_side_by_side(
      [&](const input_binding& input, std::size_t place) { code.bind(input.what, from + place); });
}

parameter_layout lay_out(const model_function& build, model_request request, std::size_t shards,
                         shard_cuts where) {
  variable_union all;
  request.batch = 1;
  for (request.worker = 0; request.worker < request.workers; ++request.worker) {
    graph g;
    const model_outputs outputs = build_fitting(build, g, request);
    const std::vector<value> variables = g.variables();
    all.add(g, gradients(outputs.loss, variables), request.worker);
  }
  return all.lay_out(shards, where);
}

std::vector<shard_variable> variables_for(const optimizer_options& options, const parameter_layout& layout,
                                          std::uint32_t shard) {
  if (!sees_whole_variables(options)) return {};
  return variables_in(layout, layout.shard(shard));
}

std::vector<shard_variable> all_variables_for(const optimizer_options& options,
                                              const parameter_layout& layout) {
  if (!sees_whole_variables(options)) return {};
  return variables_in(layout, {0, layout.size()});
}

std::vector<shard_variable> whole_variables_of(const parameter_layout& layout, std::uint32_t shard) {
  const shard_range range = layout.shard(shard);
  const auto is_cut = [&](const placed_variable& v) { return lies_in(v, range) && !lies_whole_in(v, range); };
  if (std::ranges::any_of(layout.variables(), is_cut)) return {};
  return variables_in(layout, range);
}

training_fetches loss_and_gradients(graph& g, const model_outputs& outputs, const parameter_layout& layout,
                                    const model_request& request) {
  training_fetches list;
  add(list, outputs.loss);
  const std::vector<value> variables = g.variables();
  const std::vector<adjoint> adjoints = gradients(outputs.loss, variables);
  for (std::size_t v = 0; v < variables.size(); ++v) {
    const std::string& name = g.of(variables[v]).name;
    const auto& placed = layout.variables();
    const auto found = std::ranges::find(placed, name, &placed_variable::name);
    if (found == placed.end())
      throw graph_error(line_of(g.of(variables[v])) + ": variable '" + name +
                        "' is not in the layout of this run");
    const auto variable = static_cast<std::size_t>(found - placed.begin());
    if (adjoints[v].dense)
      list.dense.push_back({add(list, *adjoints[v].dense), variable, found->offset, found->dims.size()});
    for (const sparse_rows& part : adjoints[v].sparse) add_sparse(list, g, variable, part, request);
  }
  return list;
}

void take_sums_apart(training_fetches& list, const graph& g, const placement& places) {
  const std::size_t sums = list.dense.size();
  for (std::size_t i = 0; i < sums; ++i) {
    dense_fetch f = list.dense[i];
    const std::vector<value> addends = addends_on_devices(g, places, list.fetches[f.index]);
    list.fetches[f.index] = addends.front();
    f.further = true;
    for (std::size_t k = 1; k < addends.size(); ++k) {
      f.index = add(list, addends[k]);
      list.dense.push_back(f);
    }
  }
}

} // namespace mailgrad
