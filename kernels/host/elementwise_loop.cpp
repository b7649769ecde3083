#include <mailgrad/kernels/host/elementwise_loop.hpp>

namespace mailgrad {

namespace {

template <class Functor, std::size_t StepA, std::size_t StepB>
void loop(const float* a, const float* b, float* y, std::size_t n) {
  const Functor f;
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) y[i] = apply(f, a[i * StepA], b[i * StepB]);
}

template <class Functor>
elementwise_loop loop_of(stepping a, stepping b) {
  if constexpr (std::is_invocable_v<Functor, float>)
    return a == stepping::along ? loop<Functor, 1, 0> : loop<Functor, 0, 0>;
  else if (a == stepping::along)
    return b == stepping::along ? loop<Functor, 1, 1> : loop<Functor, 1, 0>;
  else
    return b == stepping::along ? loop<Functor, 0, 1> : loop<Functor, 0, 0>;
}

} // namespace

elementwise_loop find_loop(elementwise_function f, stepping a, stepping b) {
  return with_functor(f, [=]<class Functor>(Functor) { return loop_of<Functor>(a, b); });
}

} // namespace mailgrad
