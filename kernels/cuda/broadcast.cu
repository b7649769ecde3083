#include <mailgrad/kernels/cuda/indices.hpp>
#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/elementwise.hpp>

#include <algorithm>

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

/// Where the operands of element k of the result lie.
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

/// Puts f(a, b) in the place of a.
struct apply_to_pack {
  operand_packs& x;

  template <class Functor>
  MAILGRAD_HOST_DEVICE void operator()(Functor f) const {
    for (unsigned k = 0; k < float_pack::size; ++k) x.a.v[k] = apply(f, x.a.v[k], x.b.v[k]);
  }
};

template <class Index>
__global__ void broadcast_kernel(elementwise_function f, broadcast_arguments<Index> plan, float* y,
                                 element_range range) {
  for_packs<1>(
      range, [&](auto elements) { return load_operands(plan, elements); },
      [&](auto& loaded) { with_functor(f, apply_to_pack{loaded[0]}); },
      [&](auto elements, const operand_packs& x) { elements.store(y, x.a); });
}

/// The fastest way to read an operand with these strides.
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
  elementwise(s, chain, std::array<const void*, 2>{a, b}, std::array<void*, 1>{y}, plan.extents[0]);
}

} // namespace

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

} // namespace mailgrad::cuda
