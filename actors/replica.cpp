#include <mailgrad/actors/replica.hpp>

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/variable_union.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace mailgrad {

namespace {

constexpr std::size_t loss_fetch = 0;

struct dense_fetch {
  std::size_t index;
  std::string variable;
};

/// Row numbers come from the batch itself where the model reads them from an input, else from a fetch.
struct sparse_fetch {
  std::string variable;
  std::size_t width;
  std::size_t count; ///< rows of the list
  std::size_t values;
  std::optional<std::size_t> rows;
  const tensor batch::*rows_in_batch = nullptr;
};

/// Loss and gradients as fetches of one program, and what each of them is.
struct fetch_list {
  std::vector<value> fetches;
  std::vector<dense_fetch> dense;
  std::vector<sparse_fetch> sparse;

  std::size_t add(const value& v) {
    fetches.push_back(v);
    return fetches.size() - 1;
  }
};

void add_sparse(fetch_list& list, const graph& g, const std::string& name, const sparse_rows& part) {
  const shape& dims = part.values.dims();
  sparse_fetch f{name, dims.back(), part.rows.dims().size(), list.add(part.values), {}, nullptr};
  const node& rows = g.of(part.rows);
  if (std::holds_alternative<input_node>(rows.what))
    f.rows_in_batch = batch_part(rows.name);
  else
    f.rows = list.add(part.rows);
  list.sparse.push_back(std::move(f));
}

fetch_list loss_and_gradients(graph& g, const model_outputs& outputs) {
  fetch_list list;
  list.add(outputs.loss);
  const std::vector<value> variables = g.variables();
  const std::vector<adjoint> adjoints = gradients(outputs.loss, variables);
  for (std::size_t v = 0; v < variables.size(); ++v) {
    const std::string& name = g.of(variables[v]).name;
    if (adjoints[v].dense) list.dense.push_back({list.add(*adjoints[v].dense), name});
    for (const sparse_rows& part : adjoints[v].sparse) add_sparse(list, g, name, part);
  }
  return list;
}

} // namespace

struct replica::training_program {
  fetch_list list;
  bound_model model;
  std::vector<std::size_t> dense_offsets;    ///< by dense fetch: floats from the start of the gradient block
  std::vector<std::size_t> sparse_variables; ///< by sparse fetch
  std::shared_ptr<const coverage> covered;   ///< by what is fetched

  training_program(const model_function& build, const model_request& request, const parameter_layout& layout)
      : model(build, request, layout, [this](graph& g, const model_outputs& outputs) {
          list = loss_and_gradients(g, outputs);
          return list.fetches;
        }) {
    const auto index_of = [&](const std::string& name) {
      const auto& placed = layout.variables();
      return static_cast<std::size_t>(std::ranges::find(placed, name, &placed_variable::name) -
                                      placed.begin());
    };
    std::vector<std::size_t> dense_variables;
    for (const dense_fetch& f : list.dense) {
      dense_variables.push_back(index_of(f.variable));
      dense_offsets.push_back(layout.variables()[dense_variables.back()].offset);
    }
    covered = coverage_of(layout, dense_variables);
    for (const sparse_fetch& f : list.sparse) sparse_variables.push_back(index_of(f.variable));
  }

  void bind(const batch& inputs, const weight_addresses& weights, gradient& out) {
    model.bind(inputs, weights);
    float* dense = out.dense.as<float>().data();
    for (std::size_t i = 0; i < list.dense.size(); ++i)
      model.code().bind_fetch(list.dense[i].index, dense + dense_offsets[i]);
    bind_sparse(inputs, out);
    if (out.covered != covered) out.covered = covered;
  }

private:
  /// A block of `out` of at least `bytes`; grows when a larger batch than before comes.
  static std::byte* memory_for(gradient& out, std::size_t position, std::size_t bytes) {
    if (out.sparse_memory.size() <= position) out.sparse_memory.resize(position + 1);
    block& memory = out.sparse_memory[position];
    if (memory.bytes() < bytes) memory = block(bytes);
    return memory.data();
  }

  void bind_sparse(const batch& inputs, gradient& out) {
    out.sparse.resize(list.sparse.size());
    for (std::size_t i = 0; i < list.sparse.size(); ++i) {
      const sparse_fetch& f = list.sparse[i];
      auto* values = reinterpret_cast<float*>(memory_for(out, 2 * i, f.count * f.width * sizeof(float)));
      model.code().bind_fetch(f.values, values);
      std::span<const std::int32_t> rows;
      if (f.rows) {
        auto* memory =
            reinterpret_cast<std::int32_t*>(memory_for(out, 2 * i + 1, f.count * sizeof(std::int32_t)));
        model.code().bind_fetch(*f.rows, memory);
        rows = {memory, f.count};
      } else {
        rows = (inputs.*f.rows_in_batch).values<std::int32_t>();
      }
      out.sparse[i] = {sparse_variables[i], f.width, rows, {values, f.count * f.width}};
    }
  }
};

replica::replica(model_function build, model_request request, std::shared_ptr<const parameter_layout> layout)
    : build_(std::move(build)), request_(std::move(request)), layout_(std::move(layout)), weights_(*layout_) {
}

replica::~replica() = default;

std::shared_ptr<gradient> replica::make_gradient() const {
  auto made = std::make_shared<gradient>();
  made->dense = block(layout_->dense_size() * sizeof(float));
  return made;
}

replica::training_program& replica::program_for(const batch& inputs) {
  auto& known = programs_[inputs.size];
  if (!known) {
    model_request request = request_;
    request.batch = inputs.size;
    known = std::make_unique<training_program>(build_, request, *layout_);
  }
  return *known;
}

void replica::run(const stream& s, std::shared_ptr<const batch> inputs, gradient& out,
                  const completion& done) {
  training_program& p = program_for(*inputs);
  p.bind(*inputs, weights_, out);
  const std::uint64_t step = inputs->number;
  out.source = std::move(inputs);
  running_ = &p.model.code();
  done_ = done;
  running_->run(s, step, [this] { // one pointer: a larger closure would be allocated
    loss_ = *static_cast<const float*>(running_->fetched(loss_fetch));
    const completion told = done_; // it may start the next run, which sets another
    told();
  });
}

parameter_layout lay_out(const model_function& build, model_request request, std::size_t shards) {
  variable_union all;
  request.batch = 1;
  for (request.worker = 0; request.worker < request.workers; ++request.worker) {
    graph g;
    const model_outputs outputs = build(g, request);
    const std::vector<value> variables = g.variables();
    all.add(g, gradients(outputs.loss, variables), request.worker);
  }
  return all.lay_out(shards);
}

} // namespace mailgrad
