#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/kernels/gemm.hpp>

namespace mailgrad {

struct replica::training_program {
  training_fetches list;
  bound_model model;
  std::shared_ptr<const coverage> covered; ///< by the dense gradients that are fetched

  training_program(const model_function& build, const model_request& request, const parameter_layout& layout)
      : model(build, request, layout,
              [&](graph& g, const model_outputs& outputs) {
                list = loss_and_gradients(g, outputs, layout, request);
                return list.fetches;
              }),
        covered(coverage_of(layout, list.dense_variables())) {}

  void bind(const batch& inputs, const weight_addresses& weights, gradient& out) {
    model.bind(inputs, weights);
    float* dense = out.dense.on_host<float>().data();
    for (const dense_fetch& f : list.dense)
      model.code().bind_fetch(f.index, dense + f.offset, next_use::later);
    bind_sparse(inputs, out);
    if (out.covered != covered) out.covered = covered;
  }

private:
  /// The block of `out` at `position`, enlarged if it has fewer than `bytes`.
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
        rows = f.rows_in_batch->of(inputs).values<std::int32_t>();
      }
      out.sparse[i] = {f.variable, f.width, rows, {values, f.count * f.width}};
    }
  }
};

replica::replica(model_function build, model_request request, std::shared_ptr<const parameter_layout> layout,
                 block_source blocks)
    : build_(std::move(build)), request_(std::move(request)), layout_(std::move(layout)),
      blocks_(std::move(blocks)), weights_(*layout_) {}

replica::~replica() = default;

replica::training_program& replica::program_for(const batch& inputs) {
  auto& known = programs_[inputs.size];
  if (!known) {
    model_request request = request_;
    request.batch = inputs.size;
    known = std::make_unique<training_program>(build_, request, *layout_);
  }
  return *known;
}

step_state replica::begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) {
  require_step(inputs.get(), out.get());
  training_program& p = program_for(*inputs);
  p.bind(*inputs, weights_, *out);
  const std::uint64_t step = inputs->number;
  out->source = std::move(inputs);
  {
    std::optional<racing_read> others_write;
    if (racing()) others_write.emplace();
    p.model.code().run(where_, step, {});
  }
  loss_ = *static_cast<const float*>(p.model.code().fetched(training_fetches::loss));
  return step_state::finished;
}

} // namespace mailgrad
