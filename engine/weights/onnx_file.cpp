#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/weights/onnx_file.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>

#include <fmt/format.h>

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <type_traits>
#include <variant>

namespace mailgrad {

namespace {

static_assert(std::endian::native == std::endian::little, "ONNX keeps numbers in this order");

constexpr const char* open_extent = "batch";
/// Protocol buffers count bytes in 31 bits. Some are left for what is not a weight.
constexpr std::size_t most_bytes = (std::size_t{1} << 31) - (std::size_t{1} << 26);

/// A model built for some size of the batch.
struct built_model {
  graph nodes;
  model_outputs outputs;

  built_model(const model_function& build, model_request request, std::size_t batch) {
    request.batch = batch;
    request.purpose = phase::evaluation;
    outputs = build_fitting(build, nodes, request);
  }
};

void set_type(onnx::ValueInfoProto& to, const onnx_value& v) {
  to.set_name(v.name);
  auto& tensor = *to.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(v.type.type == dtype::float32 ? onnx::TensorProto::FLOAT : onnx::TensorProto::INT32);
  for (std::size_t axis = 0; axis < v.type.dims.rank(); ++axis) {
    auto& extent = *tensor.mutable_shape()->add_dim();
    if (v.varies[axis])
      extent.set_dim_param(open_extent);
    else
      extent.set_dim_value(static_cast<std::int64_t>(v.type.dims[axis]));
  }
}

template <class T>
void set_numbers(onnx::TensorProto& to, const std::string& name, std::span<const std::int64_t> dims,
                 std::span<const T> values) {
  to.set_name(name);
  to.set_data_type(std::is_same_v<T, float>          ? onnx::TensorProto::FLOAT
                   : std::is_same_v<T, std::int64_t> ? onnx::TensorProto::INT64
                                                     : onnx::TensorProto::INT32);
  for (const std::int64_t extent : dims) to.add_dims(extent);
  to.set_raw_data(values.data(), values.size_bytes());
}

void set_attribute(onnx::AttributeProto& to, const onnx_attribute& from) {
  to.set_name(from.name);
  if (const auto* whole = std::get_if<std::int64_t>(&from.value)) {
    to.set_type(onnx::AttributeProto::INT);
    to.set_i(*whole);
  } else if (const auto* number = std::get_if<float>(&from.value)) {
    to.set_type(onnx::AttributeProto::FLOAT);
    to.set_f(*number);
  } else {
    to.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t i : std::get<std::vector<std::int64_t>>(from.value)) to.add_ints(i);
  }
}

std::vector<std::int64_t> extents_of(const shape& dims) { return {dims.begin(), dims.end()}; }

/// Translates the nodes that the logits depend on. What differs between two sizes of the batch depends on it.
class translation {
public:
  translation(const model_function& model, const saved_weights& trained)
      : trained_(trained), card_(card_of(trained)), two_(model, card_.request, 2),
        three_(model, card_.request, 3) {
    const std::vector<char> needed = needed_for(two_.nodes, std::vector{two_.outputs.logits});
    if (two_.nodes.nodes().size() != three_.nodes.nodes().size()) refuse("its nodes depend on the batch");
    for (std::uint32_t id = 0; id < needed.size(); ++id)
      if (const node& n = two_.nodes.nodes()[id];
          needed[id] && !std::holds_alternative<operation_node>(n.what))
        nodes_.take(n.name);
    for (std::uint32_t id = 0; id < needed.size(); ++id)
      if (needed[id]) add(id);
    finish();
  }

  const onnx::ModelProto& model() const noexcept { return model_; }

private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw std::invalid_argument(
        fmt::format("the model of '{}' cannot be written as ONNX: {}", trained_.file, why));
  }

  void add(std::uint32_t id) {
    const node& n = two_.nodes.nodes()[id];
    const node& other = three_.nodes.nodes()[id];
    if (n.what.index() != other.what.index() || n.outputs.size() != other.outputs.size())
      refuse("its nodes depend on the batch");
    if (std::holds_alternative<input_node>(n.what))
      add_input(id, n);
    else if (std::holds_alternative<variable_node>(n.what))
      add_variable(id, n);
    else if (const auto* constant = std::get_if<constant_node>(&n.what))
      add_constant(id, n, *constant);
    else
      add_operation(id, n);
  }

  onnx_value value_at(std::uint32_t id, std::size_t output) const {
    onnx_value v{{}, two_.nodes.nodes()[id].outputs[output]};
    const shape& other = three_.nodes.nodes()[id].outputs[output].dims;
    if (other.rank() != v.type.dims.rank()) refuse("a number of axes depends on the batch");
    for (std::size_t axis = 0; axis < other.rank(); ++axis) v.varies[axis] = other[axis] != v.type.dims[axis];
    if (const auto found = names_.find({id, output}); found != names_.end()) v.name = found->second;
    return v;
  }

  void add_input(std::uint32_t id, const node& n) {
    names_[{id, 0}] = n.name;
    const onnx_value v = value_at(id, 0);
    set_type(*model_.mutable_graph()->add_input(), v);
    if (n.name == batch_input::features && v.type.type == dtype::float32 && !card_.divisors.empty())
      names_[{id, 0}] = divided(v);
  }

  std::string divided(const onnx_value& features) {
    const std::vector<float>& by = card_.divisors;
    if (by.size() == 1) return nodes_.add("Div", {features.name, nodes_.number(by.front())});
    std::vector<std::int64_t> sample = extents_of(features.type.dims);
    sample.erase(sample.begin());
    if (by.size() * 2 != features.type.dims.size())
      refuse(fmt::format("its card has {} divisors for samples of {} numbers", by.size(),
                         features.type.dims.size() / 2));
    return nodes_.add("Div", {features.name, nodes_.numbers(std::move(sample), by)});
  }

  void add_variable(std::uint32_t id, const node& n) {
    names_[{id, 0}] = n.name;
    const saved_weights::variable* const found = trained_.find(n.name);
    if (!found) refuse(fmt::format("variable '{}' depends on the batch", n.name));
    const tensor& values = found->values;
    set_numbers(*model_.mutable_graph()->add_initializer(), n.name, extents_of(values.dims()),
                std::span<const float>(values.values()));
  }

  void add_constant(std::uint32_t id, const node& n, const constant_node& c) {
    const tensor& values = *c.values;
    const tensor& other = *std::get<constant_node>(three_.nodes.nodes()[id].what).values;
    const std::size_t bytes = values.dims().size() * sizeof(float);
    if (values.dims() != other.dims() ||
        !std::equal(bytes_of(values), bytes_of(values) + bytes, bytes_of(other)))
      refuse(fmt::format("a constant of it depends on the batch ({})", line_of(n)));
    if (values.type() == dtype::float32) {
      const auto numbers = values.values();
      names_[{id, 0}] = nodes_.numbers(extents_of(values.dims()), {numbers.begin(), numbers.end()});
      return;
    }
    const std::string name = fmt::format("constant_of_node_{}", id);
    names_[{id, 0}] = name;
    set_numbers(*model_.mutable_graph()->add_initializer(), name, extents_of(values.dims()),
                std::span(reinterpret_cast<const std::int32_t*>(bytes_of(values)), values.dims().size()));
  }

  static const std::byte* bytes_of(const tensor& t) { return reinterpret_cast<const std::byte*>(t.data()); }

  void add_operation(std::uint32_t id, const node& n) {
    const operation& op = *std::get<operation_node>(n.what);
    const operation& other = *std::get<operation_node>(three_.nodes.nodes()[id].what);
    const std::string name = fmt::format("operation '{}' ({})", op.name(), line_of(n));
    if (op.name() != other.name() || op.describe() != other.describe())
      refuse(name + " does not do the same for every size of the batch");
    const auto* form = dynamic_cast<const onnx_form*>(&op);
    std::vector<onnx_value> inputs, outputs;
    for (const value& v : n.inputs) {
      inputs.push_back(value_at(v.node(), v.output()));
      if (inputs.back().name.empty()) refuse(name + " reads what only a gradient reads elsewhere");
    }
    for (std::size_t i = 0; i < n.outputs.size(); ++i) outputs.push_back(value_at(id, i));
    nodes_.set_prefix(n.scope.empty() ? n.scope : n.scope + "/");
    const std::vector<std::string> results =
        form ? form->to_onnx(nodes_, inputs, outputs) : std::vector<std::string>();
    if (results.empty()) refuse(name + " has no counterpart there");
    for (std::size_t i = 0; i < results.size(); ++i) names_[{id, i}] = results[i];
  }

  void finish() {
    onnx_value logits = value_at(two_.outputs.logits.node(), two_.outputs.logits.output());
    nodes_.set_prefix({});
    logits.name = nodes_.rename_output(nodes_.add("Identity", {logits.name}), "logits");
    onnx::GraphProto& g = *model_.mutable_graph();
    g.set_name("mailgrad");
    set_type(*g.add_output(), logits);
    for (const onnx_constant& c : nodes_.constants())
      std::visit(
          [&](const auto& values) { set_numbers(*g.add_initializer(), c.name, c.dims, std::span(values)); },
          c.values);
    for (const onnx_node& n : nodes_.nodes()) {
      onnx::NodeProto& to = *g.add_node();
      to.set_op_type(n.type);
      to.set_name(n.outputs.front());
      for (const std::string& i : n.inputs) to.add_input(i);
      for (const std::string& o : n.outputs) to.add_output(o);
      for (const onnx_attribute& a : n.attributes) set_attribute(*to.add_attribute(), a);
    }
    model_.set_ir_version(onnx_nodes::ir);
    model_.set_producer_name("mailgrad");
    model_.set_producer_version(MAILGRAD_VERSION);
    model_.add_opset_import()->set_version(onnx_nodes::opset);
    auto& metadata = *model_.add_metadata_props();
    metadata.set_key("mailgrad");
    metadata.set_value(to_json(card_));
  }

  const saved_weights& trained_;
  const model_card& card_;
  built_model two_, three_;
  onnx_nodes nodes_;
  std::map<std::pair<std::uint32_t, std::size_t>, std::string> names_; ///< of values, by node and output
  onnx::ModelProto model_;
};

void require_fitting_weights(const model_function& model, const saved_weights& trained) {
  const parameter_layout layout = lay_out(model, card_of(trained).request, 1);
  if (layout.size() > most_bytes / sizeof(float))
    throw std::invalid_argument(
        fmt::format("weights of '{}' are {} numbers, and a file of ONNX holds at most {}", trained.file,
                    layout.size(), most_bytes / sizeof(float)));
  require_whole(trained, fit(trained, layout, std::vector<float>(layout.size())));
}

} // namespace

void write_onnx(const std::filesystem::path& path, const saved_weights& trained) {
  write_onnx(path, model_of(trained), trained);
}

void write_onnx(const std::filesystem::path& path, const model_function& model,
                const saved_weights& trained) {
  require_fitting_weights(model, trained);
  const translation whole(model, trained);
  replaced_file out(path.string());
  whole.model().SerializeToOstream(&out);
  if (const int why = out.keep_on_disk(); why != 0) throw_unwritable(path, why);
}

} // namespace mailgrad
