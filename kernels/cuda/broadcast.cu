#include <mailgrad/kernels/cuda/indices.hpp>
#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/functors/philox.hpp>
#include <mailgrad/kernels/reduce.hpp>

namespace mailgrad::cuda {
namespace {

/// How a thread reads four neighbouring elements of a repeated operand.
enum class reading : std::uint32_t {
  in_order, ///< it is not repeated: element k for element k of the result
  row,      ///< four neighbours of one row
  same,     ///< one element for all four
  single,   ///< each on its own, as they may lie in two rows
  not_read, ///< the function takes one number
};

template <class Index>
struct broadcast_axis {
  divider<Index> extent;
  Index a, b; ///< strides in elements
};

template <class Index>
struct broadcast_arguments {
  broadcast_axis<Index> axes[shape::max_rank];
  std::size_t rank;
  const float *a, *b;
  reading how_a, how_b;
};

template <class Index>
struct operand_places {
  Index a = 0, b = 0;
};

template <class Index>
__device__ operand_places<Index> places_of(const broadcast_arguments<Index>& plan, Index k) {
  operand_places<Index> at;
  for (std::size_t axis = plan.rank; --axis > 0;) {
    const Index rest = plan.axes[axis].extent(k), index = k - rest * plan.axes[axis].extent.by();
    at.a += index * plan.axes[axis].a;
    at.b += index * plan.axes[axis].b;
    k = rest;
  }
  at.a += k * plan.axes[0].a;
  at.b += k * plan.axes[0].b;
  return at;
}

template <class Elements>
__device__ void load_repeated(float_pack& x, reading how, const float* from, std::size_t place,
                              const Elements& elements) {
  if (how == reading::in_order) x = elements.load(from);
  if (how == reading::row) x = load_pack(from + place);
  if (how == reading::same) {
    const float value = from[place];
    x = {{value, value, value, value}};
  }
}

template <class Index, class Elements>
__device__ operand_packs load_operands(const broadcast_arguments<Index>& plan, const Elements& elements) {
  operand_packs x{};
  const auto first = static_cast<Index>(elements.first);
  const operand_places<Index> at = places_of(plan, first);
  load_repeated(x.a, plan.how_a, plan.a, at.a, elements);
  load_repeated(x.b, plan.how_b, plan.b, at.b, elements);
  if (plan.how_a != reading::single && plan.how_b != reading::single) return x;
#pragma unroll
  for (unsigned i = 0; i < float_pack::size; ++i) {
    if (i >= elements.size()) break;
    const operand_places<Index> here = places_of(plan, first + i);
    if (plan.how_a == reading::single) x.a.v[i] = plan.a[here.a];
    if (plan.how_b == reading::single) x.b.v[i] = plan.b[here.b];
  }
  return x;
}

template <class Index>
__global__ void broadcast_kernel(elementwise_function f, broadcast_arguments<Index> plan, float* y,
                                 element_range range) {
  for_packs<1>(
      range, [&](auto elements) { return load_operands(plan, elements); },
      [&](auto& loaded) { with_functor(f, apply_to_packs<1>{loaded}); },
      [&](auto elements, const operand_packs& x) { elements.store(y, x.a); });
}

reading reading_of(const broadcast_plan& plan, const std::array<std::size_t, shape::max_rank>& strides,
                   const float* from) {
  bool in_order = true, whole_packs = are_packs(from);
  std::size_t step = 1;
  for (std::size_t axis = plan.rank; axis-- > 0; step *= plan.extents[axis]) {
    in_order = in_order && strides[axis] == step;
    whole_packs = whole_packs && (axis + 1 == plan.rank || strides[axis] % float_pack::size == 0);
  }
  if (in_order) return reading::in_order;
  if (plan.extents[plan.rank - 1] % float_pack::size != 0) return reading::single;
  if (strides[plan.rank - 1] == 0) return reading::same;
  return whole_packs ? reading::row : reading::single;
}

template <class Index>
void run(const cuda_stream& s, elementwise_function f, const broadcast_plan& plan, const float* a,
         const float* b, float* y, std::size_t n) {
  broadcast_arguments<Index> made{};
  for (std::size_t axis = 0; axis < plan.rank; ++axis)
    made.axes[axis] = {divider<Index>(plan.extents[axis]), static_cast<Index>(plan.a[axis]),
                       static_cast<Index>(plan.b[axis])};
  made.rank = plan.rank;
  made.a = a;
  made.how_a = reading_of(plan, plan.a, a);
  made.b = b;
  made.how_b = is_unary(f) ? reading::not_read : reading_of(plan, plan.b, b);
  const bool aligned = are_packs(y) && (made.how_a != reading::in_order || are_packs(a)) &&
                       (made.how_b != reading::in_order || are_packs(b));
  launch(s, "broadcast", blocks_of_packs(n, 1), threads_per_block, 0, broadcast_kernel<Index>, f, made, y,
         element_range{n, aligned});
}

/// Operands that are not repeated, or one element for all, are a chain of one step.
void run_in_order(const cuda_stream& s, elementwise_function f, const broadcast_plan& plan, const float* a,
                  const float* b, float* y) {
  const auto extent_of = [](std::size_t stride) {
    return stride == 0 ? elementwise_chain::extent::one : elementwise_chain::extent::full;
  };
  elementwise_chain chain;
  chain.inputs = {extent_of(plan.a[0]), extent_of(plan.b[0])};
  chain.input_count = 2;
  chain.steps[0] = {.function = f, .a = 0, .b = static_cast<std::uint8_t>(is_unary(f) ? 0 : 1), .output = 0};
  chain.step_count = 1;
  body<mailgrad::elementwise>::get()(s, chain, std::array<const void*, 2>{a, b}, std::array<void*, 1>{y},
                                     plan.extents[0], nullptr);
}

void broadcast(const cuda_stream& s, elementwise_function f, const broadcast_plan& plan, const float* a,
               const float* b, float* y) {
  std::size_t n = 1;
  for (std::size_t axis = 0; axis < plan.rank; ++axis) n *= plan.extents[axis];
  if (n == 0) return;
  if (plan.rank == 1)
    run_in_order(s, f, plan, a, b, y);
  else if (fits_32_bits(s, n))
    run<std::uint32_t>(s, f, plan, a, b, y, n);
  else
    run<std::size_t>(s, f, plan, a, b, y, n);
}

/// The matrices, of whose rows each row of blocks takes `rows_of_block`. A row of threads takes every
/// blockDim.y-th of them.
struct masked_rows {
  const float *y, *dy;
  float* dz;
  std::size_t rows, columns, rows_of_block;
};

template <unsigned size>
struct loaded_row {
  moved_floats<size> y, dy;
};

/// Writes dz for `size` neighbouring columns of this thread's rows; returns the sum of these.
template <unsigned size>
__device__ moved_floats<size> mask_rows(const masked_rows& m, std::size_t column) {
  constexpr unsigned together = 4; // rows that are under way at a time
  moved_floats<size> sum{};
  const std::size_t begin = blockIdx.y * m.rows_of_block;
  const std::size_t end = begin + m.rows_of_block < m.rows ? begin + m.rows_of_block : m.rows;
  for (std::size_t first = begin + threadIdx.y; first < end; first += std::size_t{together} * blockDim.y) {
    loaded_row<size> x[together] = {};
#pragma unroll
    for (unsigned i = 0; i < together; ++i)
      if (const std::size_t row = first + i * blockDim.y; row < end)
        x[i] = {load_floats<size>(m.y + row * m.columns + column),
                load_floats<size>(m.dy + row * m.columns + column)};
#pragma unroll
    for (unsigned i = 0; i < together; ++i) {
      moved_floats<size> d;
#pragma unroll
      for (unsigned k = 0; k < size; ++k) {
        d.v[k] = functors::relu_gradient{}(x[i].y.v[k], x[i].dy.v[k]);
        sum.v[k] += d.v[k]; // 0 for a row that is not there
      }
      if (const std::size_t row = first + i * blockDim.y; row < end)
        store_floats(m.dz + row * m.columns + column, d);
    }
  }
  return sum;
}

/// Writes to row blockIdx.y of `sums` what the rows of this block sum up to. The order of each sum depends
/// only on the shape.
template <unsigned size>
__global__ void bias_relu_gradient_kernel(masked_rows m, float* sums) {
  const std::size_t column = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * size;
  const bool exists = column < m.columns;
  auto* const workspace = shared_memory<moved_floats<size>>() + threadIdx.x;
  workspace[threadIdx.y * blockDim.x] = exists ? mask_rows<size>(m, column) : moved_floats<size>{};
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y >= half) continue;
#pragma unroll
    for (unsigned k = 0; k < size; ++k)
      workspace[threadIdx.y * blockDim.x].v[k] += workspace[(threadIdx.y + half) * blockDim.x].v[k];
  }
  if (exists && threadIdx.y == 0) store_floats(sums + blockIdx.y * m.columns + column, workspace[0]);
}

/// Blocks are at most a warp wide, and hardly wider than the columns need.
template <unsigned size>
void run(const cuda_stream& s, masked_rows m, float* db) {
  constexpr std::size_t enough_blocks = multiprocessors * 4; // each thread has eight loads under way
  const std::size_t packs = m.columns / size;
  const auto width = static_cast<unsigned>(std::min<std::size_t>(warp_size, std::bit_ceil(packs)));
  const std::size_t height = threads_per_block / width;
  const std::size_t blocks_beside = (packs + width - 1) / width;
  const std::size_t most_parts =
      std::clamp<std::size_t>(enough_blocks / blocks_beside, 1, (m.rows + height - 1) / height);
  const std::size_t parts =
      std::clamp<std::size_t>(s.scratch_bytes / sizeof(float) / m.columns, 1, most_parts);
  m.rows_of_block = (m.rows + parts - 1) / parts;
  const std::size_t sums = (m.rows + m.rows_of_block - 1) / m.rows_of_block;
  auto* const partial = static_cast<float*>(s.scratch);
  launch(s, "bias_relu_gradient", dim3(static_cast<unsigned>(blocks_beside), static_cast<unsigned>(sums)),
         dim3(width, static_cast<unsigned>(height)), sizeof(moved_floats<size>) * threads_per_block,
         bias_relu_gradient_kernel<size>, m, sums == 1 ? db : partial);
  if (sums > 1) sum_columns(s, "bias_relu_gradient", partial, sums, m.columns, 1, db);
}

void bias_relu_gradient(const cuda_stream& s, const float* y, const float* dy, float* dz, float* db,
                        std::size_t rows, std::size_t columns) {
  if (columns == 0) return;
  const masked_rows m{y, dy, dz, rows, columns, 0};
  if (rows == 0)
    runtime::fill(s.stream, db, 0, columns * sizeof(float));
  else if (columns % float_pack::size == 0 && are_packs(y, dy, dz, db))
    run<float_pack::size>(s, m, db);
  else
    run<1>(s, m, db);
}

template <unsigned count, class X, class Y, class Slope>
__global__ void bias_gelu_kernel(const X* x, const float* b, Y* y, Slope* slope,
                                 divider<std::uint32_t> columns, std::uint32_t n) {
  for (std::size_t k = grid_thread() * count; k < n; k += grid_threads() * count) {
    auto column = static_cast<std::uint32_t>(k);
    columns.divide(column);
    const auto from = load_floats<count>(x + k), bias = load_floats<count>(b + column);
    moved_floats<count> to, slopes;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) {
      const float z = from.v[i] + bias.v[i];
      const approximate::normal_parts normal = approximate::normal_at(z);
      to.v[i] = z * normal.share;
      slopes.v[i] = normal.share + z * normal.density;
    }
    store_floats(y + k, to);
    store_floats(slope + k, slopes);
  }
}

template <unsigned count, class A, class B, class Y>
__global__ void multiply_kernel(const A* a, const B* b, Y* y, std::size_t n) {
  for (std::size_t k = grid_thread() * count; k < n; k += grid_threads() * count) {
    const auto left = load_floats<count>(a + k), right = load_floats<count>(b + k);
    moved_floats<count> to;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) to.v[i] = left.v[i] * right.v[i];
    store_floats(y + k, to);
  }
}

/// How many neighbours fill 16 bytes of each type.
template <class... T>
constexpr unsigned in_a_pack = ((sizeof(T) == sizeof(float)) && ...) ? 4 : 8;

template <class X, class Y, class Slope>
void compute(const cuda_stream& s, const X* x, const float* b, Y* y, Slope* slope, std::size_t rows,
             std::size_t columns) {
  constexpr unsigned several = in_a_pack<X, Y, Slope>;
  const bool packs = columns % several == 0 && are_packs(x, b, y, slope);
  const auto kernel = packs ? bias_gelu_kernel<several, X, Y, Slope> : bias_gelu_kernel<1, X, Y, Slope>;
  for_row_chunks(s, "bias_gelu", rows, columns, [&](std::size_t first, std::size_t count) {
    const std::size_t at = first * columns, n = count * columns;
    launch(s, "bias_gelu", blocks_for(packs ? n / several : n), threads_per_block, 0, kernel, x + at, b,
           y + at, slope + at, divider<std::uint32_t>(columns), static_cast<std::uint32_t>(n));
  });
}

template <class Slope, class B, class Y>
void multiply(const cuda_stream& s, const Slope* slope, const B* dy, Y* dz, std::size_t n) {
  constexpr unsigned several = in_a_pack<Slope, B, Y>;
  const bool packs = n % several == 0 && are_packs(slope, dy, dz);
  launch(s, "bias_gelu_gradient", blocks_for(packs ? n / several : n), threads_per_block, 0,
         packs ? multiply_kernel<several, Slope, B, Y> : multiply_kernel<1, Slope, B, Y>, slope, dy, dz, n);
}

read_numbers as_read(const written_numbers& x) {
  return std::visit([](const auto* numbers) { return read_numbers(numbers); }, x);
}

void bias_gelu(const cuda_stream& s, read_numbers x, const float* b, written_numbers y, written_numbers slope,
               std::size_t rows, std::size_t columns) {
  if (rows * columns == 0) return;
  std::visit(
      [&](const auto* from, auto* to, auto* slopes) { compute(s, from, b, to, slopes, rows, columns); }, x, y,
      slope);
}

void bias_gelu_gradient(const cuda_stream& s, read_numbers slope, read_numbers dy, written_numbers dz,
                        float* db, std::size_t rows, std::size_t columns) {
  if (columns == 0) return;
  const std::size_t n = rows * columns;
  if (n > 0)
    std::visit([&](const auto* slopes, const auto* from, auto* to) { multiply(s, slopes, from, to, n); },
               slope, dy, dz);
  sum_middle(s, "bias_gelu_gradient", as_read(dz), {1, rows, columns}, 1, db);
}

/// The four numbers of one counter belong to elements that lie `lanes` apart, as on the host. So 32 elements
/// take eight counters, and a thread draws four neighbouring ones: those of four packs.
constexpr unsigned lanes = 8;
constexpr unsigned elements_together = 4 * lanes;
constexpr unsigned threads_together = lanes / float_pack::size;

__global__ void dropout_kernel(philox random, std::uint32_t threshold, float scale,
                               const stream_status* status, const float* x, float* y, element_range range) {
  const std::size_t together = grid_thread() / threads_together;
  const unsigned lane = static_cast<unsigned>(grid_thread() % threads_together) * float_pack::size;
  const std::size_t first = together * elements_together + lane;
  float_pack packs[4] = {};
#pragma unroll
  for (unsigned k = 0; k < 4; ++k)
    range.visit(first + k * lanes, [&](auto elements) { packs[k] = elements.load(x); });
  const std::uint64_t step = status->step;
#pragma unroll
  for (unsigned i = 0; i < float_pack::size; ++i) {
    const std::uint64_t counter = together * lanes + lane + i;
    const philox::numbers drawn = random(counter, step);
    const std::uint32_t numbers[4] = {drawn.x0, drawn.x1, drawn.x2, drawn.x3};
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) packs[k].v[i] = numbers[k] < threshold ? 0.0F : packs[k].v[i] * scale;
  }
#pragma unroll
  for (unsigned k = 0; k < 4; ++k)
    range.visit(first + k * lanes, [&](auto elements) { elements.store(y, packs[k]); });
}

void dropout(const cuda_stream& s, const dropout_draw& draw, const float* x, float* y, std::size_t size) {
  if (size == 0) return;
  const philox random = philox::of(draw.seed);
  const std::size_t threads = (size + elements_together - 1) / elements_together * threads_together;
  launch(s, "dropout", static_cast<unsigned>((threads + threads_per_block - 1) / threads_per_block),
         threads_per_block, 0, dropout_kernel, random, draw.threshold(), draw.scale(), s.status, x, y,
         element_range{size, are_packs(x, y)});
}

/// Rounds or widens eight numbers a thread. Those behind `in_packs` are taken one by one.
template <class X, class Y>
__global__ void convert_kernel(const X* x, Y* y, std::size_t n, std::size_t in_packs) {
  const std::size_t first = grid_thread() * bfloat16_pack::size;
  if (first < in_packs) {
    store_floats(y + first, load_floats<bfloat16_pack::size>(x + first));
    return;
  }
  for (std::size_t i = first; i < n && i < first + bfloat16_pack::size; ++i)
    store_number(y + i, as_float(x[i]));
}

template <class X, class Y>
void convert(const cuda_stream& s, const char* name, std::span<const X> x, Y* y) {
  constexpr std::size_t per_block = threads_per_block * bfloat16_pack::size;
  const std::size_t n = x.size();
  if (n == 0) return;
  const std::size_t in_packs = are_packs(x.data(), y) ? n / bfloat16_pack::size * bfloat16_pack::size : 0;
  launch(s, name, static_cast<unsigned>((n + per_block - 1) / per_block), threads_per_block, 0,
         convert_kernel<X, Y>, x.data(), y, n, in_packs);
}

void round_floats(const cuda_stream& s, std::span<const float> x, bfloat16* y) {
  convert(s, "round_floats", x, y);
}

void widen_floats(const cuda_stream& s, std::span<const bfloat16> x, float* y) {
  convert(s, "widen_floats", x, y);
}

} // namespace

MAILGRAD_GPU_BODY(broadcast)
MAILGRAD_GPU_BODY(bias_relu_gradient)
MAILGRAD_GPU_BODY(bias_gelu)
MAILGRAD_GPU_BODY(bias_gelu_gradient)
MAILGRAD_GPU_BODY(dropout)
MAILGRAD_GPU_BODY(round_floats)
MAILGRAD_GPU_BODY(widen_floats)

} // namespace mailgrad::cuda
