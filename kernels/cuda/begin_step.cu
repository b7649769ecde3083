#include <mailgrad/kernels/cuda/begin_step.hpp>
#include <mailgrad/kernels/cuda/launch.hpp>

namespace mailgrad::cuda {

namespace {

__global__ void begin_step_kernel(lane_words* words, std::uint64_t step, std::uint64_t ticket) {
  words->step = step;
  words->ticket = ticket;
  words->begun = card_nanoseconds();
}

} // namespace

// The numbers travel as arguments of a kernel: a copy of the caller's variable could make the caller wait
// for the stream.
void begin_step(const cuda_stream& s, std::uint64_t step, std::uint64_t ticket) {
  launch(s, "begin_step", 1, 1, 0, begin_step_kernel, s.words, step, ticket);
}

} // namespace mailgrad::cuda
