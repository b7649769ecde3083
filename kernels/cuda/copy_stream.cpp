#include <mailgrad/kernels/cuda/copy_stream.hpp>

#include <mailgrad/kernels/cuda/card_lane.hpp>
#include <mailgrad/kernels/cuda/stream_mark.hpp>

namespace mailgrad::cuda {

mark copy_stream::copy(void* to, const void* from, std::size_t bytes) {
  runtime::make_current(stream_.card());
  runtime::copy(stream_.get(), to, from, bytes);
  return marks_.record();
}

memory copy_stream::allocate(std::size_t bytes) {
  return memory(allocate_on(cuda_stream{.stream = stream_.get(), .device = stream_.card()}, bytes));
}

void copy_stream::wait_for(const mark& m) { wait_for_mark(stream_.get(), m); }

void copy_stream::finish() {
  runtime::make_current(stream_.card());
  runtime::synchronise(stream_.get());
}

} // namespace mailgrad::cuda
