#include <mailgrad/kernels/host/convolution/dense_convolution.hpp>

#ifdef MAILGRAD_HAS_ONEDNN
#include <omp.h>
#endif

namespace mailgrad {

void use_one_thread() noexcept {
#ifdef MAILGRAD_HAS_ONEDNN
  // OpenMP keeps this number for each calling thread. Without it, each would start a thread for every core.
  thread_local const bool done = [] {
    omp_set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
#endif
}

} // namespace mailgrad
