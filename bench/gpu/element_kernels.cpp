#include "gpu_kernels.hpp"

#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/cuda/chain_kernels.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/update.hpp>
#include <mailgrad/kernels/vectors.hpp>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

timed_kernel copy_of(gpu_arrays& a, const char* name, std::size_t n) {
  return {name, float_bytes(n, 2), 0, [from = a.floats(n), to = a.buffer<float>(n), n](const stream& s) {
            cuda::runtime::copy(std::get<cuda_stream>(s).stream, to, from, n * sizeof(float));
          }};
}
timed_kernel copy_64(gpu_arrays& a) { return copy_of(a, "copy 64 MiB", floats_of(64)); }
timed_kernel copy_256(gpu_arrays& a) { return copy_of(a, "copy 256 MiB", floats_of(256)); }

template <std::size_t states>
timed_kernel update_of(gpu_arrays& a, const char* name, std::size_t n, update_rule rule) {
  std::array<float*, states> state{};
  for (float*& x : state) x = a.buffer<float>(n);
  return {name, float_bytes(n, 3 + 2 * states), 0,
          [w = a.floats(n), g = a.floats(n), n, rule, state](const stream& s) {
            const scaled_gradient scaled{g, 1e-6F};
            update(s, rule, {}, {{w, n}, {w, n}, {&scaled, 1}}, state);
          }};
}
timed_kernel adam_256(gpu_arrays& a) {
  return update_of<2>(a, "update adam 256 MiB", floats_of(256),
                      adam_update{1e-3F, .9F, .1F, .999F, .001F, 1, 1e-8F});
}
timed_kernel momentum(gpu_arrays& a) {
  return update_of<1>(a, "update momentum", floats_of(64), momentum_update{1e-3F, .9F});
}
timed_kernel sgd(gpu_arrays& a) { return update_of<0>(a, "update sgd", floats_of(64), sgd_update{1e-3F}); }

timed_kernel sgd_of_8(gpu_arrays& a) {
  constexpr std::size_t count = 8;
  const std::size_t n = floats_of(64);
  std::array<scaled_gradient, count> gradients{};
  for (scaled_gradient& g : gradients) g = {a.floats(n), 1e-6F};
  return {"update sgd, 8 gradients", float_bytes(n, 2 + count), 0,
          [n, w = a.floats(n), gradients](const stream& s) {
            update(s, sgd_update{1e-3F}, {}, {{w, n}, {w, n}, gradients}, {});
          }};
}

timed_kernel chain_of(gpu_arrays& a, const char* name, std::initializer_list<elementwise_chain::step> steps,
                      std::size_t inputs) {
  const std::size_t n = floats_of(64);
  elementwise_chain chain;
  chain.input_count = static_cast<std::uint8_t>(inputs);
  for (const auto& step : steps) chain.steps[chain.step_count++] = step;
  std::vector<const void*> from;
  for (std::size_t i = 0; i < inputs; ++i) from.push_back(a.floats(n));
  return {name, float_bytes(n, inputs + 1), 0,
          [=, to = static_cast<void*>(a.buffer<float>(n))](const stream& s) {
            elementwise(s, chain, from, {&to, 1}, n, nullptr);
          }};
}
/// The same by the kernel that is generated for it.
timed_kernel generated(timed_kernel k) {
  k.name += ", generated";
  k.queue = [queue = k.queue](const stream& s) {
    cuda::compute(cuda::chains::generated);
    queue(s);
    const std::string why_none = cuda::wait_for_chain_kernels(); // only the first time is there one to come
    cuda::compute(cuda::chains::interpreted);
    if (!why_none.empty()) throw left_out(why_none);
  };
  return k;
}
timed_kernel relu(gpu_arrays& a) { return chain_of(a, "relu", {{elementwise_function::relu, 0, 0, 0}}, 1); }
timed_kernel addition(gpu_arrays& a) { return chain_of(a, "add", {{elementwise_function::add, 0, 1, 0}}, 2); }
timed_kernel chain_of_3(gpu_arrays& a) {
  return chain_of(a, "chain of 3",
                  {{elementwise_function::multiply, 0, 1, -1},
                   {elementwise_function::add, 3, 2, -1},
                   {elementwise_function::tanh, 4, 4, 0}},
                  3);
}

timed_kernel generated_3(gpu_arrays& a) { return generated(chain_of_3(a)); }

/// As a model has them: the gradients of functions, with results that others read.
timed_kernel chain_of_8(gpu_arrays& a) {
  return chain_of(a, "chain of 8",
                  {{elementwise_function::multiply, 0, 1, -1},
                   {elementwise_function::add, 3, 2, -1},
                   {elementwise_function::sigmoid, 4, 4, -1},
                   {elementwise_function::multiply, 5, 0, -1},
                   {elementwise_function::tanh, 6, 6, -1},
                   {elementwise_function::tanh_gradient, 7, 1, -1},
                   {elementwise_function::gelu_gradient, 4, 8, -1},
                   {elementwise_function::subtract, 9, 5, 0}},
                  3);
}
timed_kernel generated_8(gpu_arrays& a) { return generated(chain_of_8(a)); }

timed_kernel bias_relu(gpu_arrays& a) {
  const std::size_t rows = row_count();
  const auto plan = plan_broadcast({rows, columns}, {columns}, {rows, columns});
  return {"relu(x + bias)", float_bytes(rows * columns, 2), 0,
          [plan, x = a.floats(rows * columns), b = a.floats(columns), y = a.buffer<float>(rows * columns)](
              const stream& s) { broadcast(s, elementwise_function::relu_of_sum, plan, x, b, y); }};
}
timed_kernel bias_relu_backward(gpu_arrays& a) {
  const std::size_t rows = row_count();
  return {"gradient of relu(x + bias)", float_bytes(rows * columns, 3), 0,
          [rows, y = a.floats(rows * columns), dy = a.floats(rows * columns),
           dz = a.buffer<float>(rows * columns), db = a.buffer<float>(columns)](const stream& s) {
            bias_relu_gradient(s, y, dy, dz, db, rows, columns);
          }};
}
timed_kernel delay_compensation(gpu_arrays& a) {
  const std::size_t n = floats_of(64);
  const std::array<const float*, 3> reads{a.floats(n), a.floats(n), a.floats(n)};
  const std::array<float*, 1> writes{a.buffer<float>(n)};
  return {"cure: delay compensation", float_bytes(n, 4), 0, [=](const stream& s) {
            map_weights(s, delay_compensation_step{1, .04F}, reads, writes, n);
          }};
}
timed_kernel addition_to_sum(gpu_arrays& a) {
  const std::size_t n = floats_of(64);
  return {"add to a sum", float_bytes(n, 3), 0, [n, x = a.floats(n), sum = a.floats(n)](const stream& s) {
            add_to_sum(s, 1e-6F, {x, n}, {sum, n});
          }};
}
timed_kernel dropping(gpu_arrays& a) {
  const std::size_t n = floats_of(64);
  return {"dropout", float_bytes(n, 2), 0, [n, x = a.floats(n), y = a.buffer<float>(n)](const stream& s) {
            dropout(s, {.5F, 7, 0}, x, y, n);
          }};
}
timed_kernel transposing(gpu_arrays& a) {
  const std::size_t side = divisor == 1 ? 4096 : 64;
  const strided_copy plan({side, side}, {{1, side}, 0}, row_major({side, side}));
  return {"transpose", float_bytes(side * side, 2), 0,
          [plan, x = a.floats(side * side), y = a.buffer<float>(side * side)](const stream& s) {
            plan.run(s, x, y);
          }};
}

} // namespace

namespace mailgrad::bench {

std::vector<kernel_maker> element_kernels() {
  cuda::compute(cuda::chains::interpreted); // but for those that are called otherwise
  return {copy_64,   copy_256,           adam_256,           momentum,        sgd,        sgd_of_8,
          relu,      addition,           chain_of_3,         generated_3,     chain_of_8, generated_8,
          bias_relu, bias_relu_backward, delay_compensation, addition_to_sum, dropping,   transposing};
}

} // namespace mailgrad::bench
