#include "gpu_kernels.hpp"

#include <mailgrad/kernels/attention.hpp>
#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/kernels/layer_norm.hpp>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

/// GPT-2 of 124 million weights on 8 windows of 1024 tokens.
constexpr std::size_t width = 768, heads = 12, words = 50257;
std::size_t batch() { return divisor == 1 ? 8 : 1; }
std::size_t window() { return divisor == 1 ? 1024 : 64; }
std::size_t tokens() { return batch() * window(); }

layer_norm_rows normalised() { return {floats_of(64) / width, width}; }
timed_kernel normalise(gpu_arrays& a) {
  const layer_norm_rows r = normalised();
  return {"layer norm, 768 columns", float_bytes(r.rows * r.width, 2), 0,
          [r, x = a.floats(r.rows * r.width), gamma = a.floats(r.width), beta = a.floats(r.width),
           y = a.buffer<float>(r.rows * r.width), mean = a.buffer<float>(r.rows),
           inverse = a.buffer<float>(r.rows)](const stream& s) {
            layer_norm(s, r, x, gamma, beta, y, mean, inverse);
          }};
}
timed_kernel normalise_backward(gpu_arrays& a) {
  const layer_norm_rows r = normalised();
  return {"gradient of layer norm", float_bytes(r.rows * r.width, 3), 0,
          [r, x = a.floats(r.rows * r.width), dy = a.floats(r.rows * r.width), gamma = a.floats(r.width),
           mean = a.floats(r.rows), inverse = a.floats(r.rows), dx = a.buffer<float>(r.rows * r.width),
           dgamma = a.buffer<float>(r.width), dbeta = a.buffer<float>(r.width)](const stream& s) {
            layer_norm_gradient(s, r, x, gamma, mean, inverse, dy, dx, dgamma, dbeta);
          }};
}

constexpr std::size_t hidden = 4 * width;
timed_kernel gelu(gpu_arrays& a) {
  const std::size_t rows = floats_of(64) / hidden, n = rows * hidden;
  return {"gelu(x + bias)", float_bytes(n, 3), 0,
          [rows, x = a.floats(n), b = a.floats(hidden), y = a.buffer<float>(n),
           slope = a.buffer<float>(n)](const stream& s) { bias_gelu(s, x, b, y, slope, rows, hidden); }};
}
timed_kernel gelu_backward(gpu_arrays& a) {
  const std::size_t rows = floats_of(64) / hidden, n = rows * hidden;
  return {"gradient of gelu(x + bias)", float_bytes(n, 3), 0,
          [rows, slope = a.floats(n), dy = a.floats(n), dz = a.buffer<float>(n),
           db = a.buffer<float>(hidden)](const stream& s) {
            bias_gelu_gradient(s, slope, dy, dz, db, rows, hidden);
          }};
}

attention_shape attended() { return {batch(), window(), divisor == 1 ? heads : 1, width / heads}; }
/// Multiplications and additions of one product of a window with itself, of which the mask leaves half.
double product_operations(const attention_shape& a) {
  return static_cast<double>(a.batch * a.window) * static_cast<double>(a.window * a.width());
}
timed_kernel attend(gpu_arrays& a) {
  const attention_shape of = attended();
  const std::size_t n = tokens() * of.width();
  const std::size_t kept = attention_workspace_on(device_kind::cuda, of).kept_floats;
  return {"causal attention", float_bytes(n, 4), 2 * product_operations(of),
          [of, qkv = a.floats(3 * n), y = a.buffer<float>(n), sums = a.buffer<float>(kept)](const stream& s) {
            causal_attention(s, of, qkv, y, sums, nullptr);
          }};
}
timed_kernel attend_backward(gpu_arrays& a) {
  const attention_shape of = attended();
  const std::size_t n = tokens() * of.width();
  const attention_workspace needs = attention_workspace_on(device_kind::cuda, of);
  float *const qkv = a.floats(3 * n), *const y = a.buffer<float>(n),
               *const sums = a.buffer<float>(needs.kept_floats);
  void* const scratch = a.buffer<std::byte>(needs.gradient_scratch_bytes);
  auto prepared = std::make_shared<bool>(false);
  return {"gradient of causal attention", float_bytes(n, 8), 5 * product_operations(of),
          [=, dy = a.floats(n), dqkv = a.buffer<float>(3 * n)](const stream& s) {
            if (!std::exchange(*prepared, true)) causal_attention(s, of, qkv, y, sums, nullptr);
            causal_attention_gradient(s, of, qkv, y, sums, dy, dqkv, scratch);
          }};
}

/// Numbers that are rounded the first time that they are asked for, since the timer queues nothing else.
class rounded_numbers {
public:
  rounded_numbers(gpu_arrays& a, std::size_t n) : from_(a.floats(n), n), to_(a.buffer<bfloat16>(n)) {}
  const bfloat16* on(const stream& s) {
    if (!std::exchange(done_, true)) round_floats(s, from_, to_);
    return to_;
  }

private:
  std::span<const float> from_;
  bfloat16* to_;
  bool done_ = false;
};

timed_kernel attend_rounded(gpu_arrays& a) {
  const attention_shape of = attended();
  const std::size_t n = tokens() * of.width();
  const std::size_t kept = attention_workspace_on(device_kind::cuda, of).kept_floats;
  const auto qkv = std::make_shared<rounded_numbers>(a, 3 * n);
  return {"causal attention, bfloat16", float_bytes(n, 4) / 2, 2 * product_operations(of),
          [=, y = a.buffer<bfloat16>(n), sums = a.buffer<float>(kept)](const stream& s) {
            causal_attention(s, of, qkv->on(s), y, sums, nullptr);
          }};
}
timed_kernel attend_backward_rounded(gpu_arrays& a) {
  const attention_shape of = attended();
  const std::size_t n = tokens() * of.width();
  const attention_workspace needs = attention_workspace_on(device_kind::cuda, of);
  const auto qkv = std::make_shared<rounded_numbers>(a, 3 * n), dy = std::make_shared<rounded_numbers>(a, n);
  bfloat16 *const y = a.buffer<bfloat16>(n), *const dqkv = a.buffer<bfloat16>(3 * n);
  float* const sums = a.buffer<float>(needs.kept_floats);
  void* const scratch = a.buffer<std::byte>(needs.gradient_scratch_bytes);
  auto prepared = std::make_shared<bool>(false);
  return {"gradient of causal attention, bfloat16", float_bytes(n, 8) / 2, 5 * product_operations(of),
          [=](const stream& s) {
            if (!std::exchange(*prepared, true)) causal_attention(s, of, qkv->on(s), y, sums, nullptr);
            causal_attention_gradient(s, of, qkv->on(s), static_cast<const bfloat16*>(y), sums, dy->on(s),
                                      dqkv, scratch);
          }};
}

timed_kernel look_up(gpu_arrays& a) {
  const std::size_t n = tokens(), height = divisor == 1 ? words : 100;
  return {"embedding of 8192 tokens", float_bytes(n * width, 2), 0,
          [=, table = a.floats(height * width), rows = a.labels(n, static_cast<std::int32_t>(height)),
           y = a.buffer<float>(n * width)](const stream& s) {
            gather(s, {table, height * width}, width, {rows, n}, y);
          }};
}
timed_kernel scatter_of(gpu_arrays& a, const char* name, std::size_t height) {
  const std::size_t n = tokens();
  void* const scratch = a.buffer<std::byte>(scatter_scratch_bytes(device_kind::cuda, n));
  return {name, float_bytes((n + height) * width, 1), 0,
          [=, rows = a.labels(n, static_cast<std::int32_t>(height)), dy = a.floats(n * width),
           table = a.buffer<float>(height * width)](const stream& s) {
            scatter_rows(s, {rows, n}, dy, width, {table, height * width}, scratch);
          }};
}
timed_kernel scatter_words(gpu_arrays& a) {
  return scatter_of(a, "embedding gradient, 50257 words", divisor == 1 ? words : 100);
}
timed_kernel scatter_letters(gpu_arrays& a) { return scatter_of(a, "embedding gradient, 65 letters", 65); }

/// A recommender with 26 tables of 100,000 rows.
constexpr std::size_t tables = 26, vector_width = 64;
std::size_t samples() { return divisor == 1 ? 2048 : 16; }
timed_kernel look_up_tables(gpu_arrays& a) {
  const std::size_t height = divisor == 1 ? 100'000 : 100, n = samples() * tables;
  std::vector<row_table> all;
  for (std::size_t i = 0; i < tables; ++i) all.push_back({a.floats(height * vector_width), height});
  return {"rows of 26 tables", float_bytes(n * vector_width, 2), 0,
          [n, all, rows = a.labels(n, static_cast<std::int32_t>(height)),
           y = a.buffer<float>(n * vector_width)](const stream& s) {
            gather_tables(s, all, vector_width, {rows, n}, y);
          }};
}
/// What a step of a worker copies of them: the same rows to the same places of other tables.
timed_kernel copy_tables(gpu_arrays& a) {
  const std::size_t height = divisor == 1 ? 100'000 : 100, n = samples() * tables;
  const std::int32_t* const rows = a.labels(n, static_cast<std::int32_t>(height));
  std::vector<row_copy> all;
  for (std::size_t i = 0; i < tables; ++i)
    all.push_back({a.floats(height * vector_width), a.buffer<float>(height * vector_width), vector_width, 0,
                   static_cast<std::int32_t>(height), samples(), rows + i, tables});
  return {"copy of rows of 26 tables", float_bytes(n * vector_width, 2), 0,
          [all](const stream& s) { copy_rows(s, all); }};
}
vector_sets pairs() { return {samples(), tables + 1, vector_width}; }
timed_kernel pair_up(gpu_arrays& a) {
  const vector_sets v = pairs();
  const std::size_t n = v.samples * v.count * v.width;
  return {"dot products of 351 pairs", float_bytes(n + v.samples * v.pairs(), 1), 0,
          [v, x = a.floats(n), y = a.buffer<float>(v.samples * v.pairs())](const stream& s) {
            pairwise_dots(s, v, x, y);
          }};
}
timed_kernel pair_up_backward(gpu_arrays& a) {
  const vector_sets v = pairs();
  const std::size_t n = v.samples * v.count * v.width;
  return {"gradient of dot products", float_bytes(2 * n + v.samples * v.pairs(), 1), 0,
          [v, x = a.floats(n), dy = a.floats(v.samples * v.pairs()),
           dx = a.buffer<float>(n)](const stream& s) { pairwise_dots_gradient(s, v, x, dy, dx); }};
}

} // namespace

namespace mailgrad::bench {

std::vector<kernel_maker> model_kernels() {
  return {normalise,
          normalise_backward,
          gelu,
          gelu_backward,
          attend,
          attend_backward,
          attend_rounded,
          attend_backward_rounded,
          look_up,
          scatter_words,
          scatter_letters,
          look_up_tables,
          copy_tables,
          pair_up,
          pair_up_backward};
}

} // namespace mailgrad::bench
