#include <cstdlib>

// Linked into each test binary: code of kernels that a test keeps would be found by the next one, and by the
// tool. It is set before main, since the first queue of a GPU asks where the folder is; programs that a test
// starts inherit it.
namespace {

[[maybe_unused]] const int no_kept_kernels = setenv("MAILGRAD_KERNEL_CACHE", "off", 1);

} // namespace
