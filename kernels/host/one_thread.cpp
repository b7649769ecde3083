#include <mailgrad/kernels/host/one_thread.hpp>

#ifdef MAILGRAD_HAS_ONEDNN
#include <omp.h>
#endif

namespace mailgrad {

void use_one_thread() noexcept {
#ifdef MAILGRAD_HAS_ONEDNN
  // OpenMP keeps the number for each thread of ours, and would start as many as there are cores for each.
  thread_local const bool done = [] {
    omp_set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
#endif
}

} // namespace mailgrad
