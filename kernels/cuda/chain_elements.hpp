#pragma once

#include <mailgrad/kernels/cuda/elements.hpp>

/// What a generated kernel of a chain is made of. Its text includes it, and so does what launches it.
namespace mailgrad::cuda {

/// The arrays of a chain, by their numbers.
struct chain_arrays {
  const float* inputs[8];
  float* outputs[8];
};

/// The one element of an array, for all elements of the result.
__device__ inline float_pack repeated(const float* x) {
  const float value = x[0];
  return {{value, value, value, value}};
}

/// f of each element.
template <class F>
__device__ float_pack of_each(F f, const float_pack& a) {
  float_pack y;
#pragma unroll
  for (unsigned i = 0; i < float_pack::size; ++i) y.v[i] = f(a.v[i]);
  return y;
}
template <class F>
__device__ float_pack of_each(F f, const float_pack& a, const float_pack& b) {
  float_pack y;
#pragma unroll
  for (unsigned i = 0; i < float_pack::size; ++i) y.v[i] = f(a.v[i], b.v[i]);
  return y;
}

} // namespace mailgrad::cuda
