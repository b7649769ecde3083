#include <mailgrad/kernels/cuda/launch.hpp>
#include <mailgrad/kernels/cuda/stream_status.hpp>

namespace mailgrad::cuda {
namespace {

__global__ void begin_step_kernel(stream_status* status, std::uint64_t step, std::uint64_t ticket) {
  status->step = step;
  status->ticket = ticket;
  status->begun = gpu_nanoseconds();
}

__global__ void record_kernel(const float* loss, const double* squared_norm, stream_status* status,
                              step_record* record) {
  record->loss = *loss;
  if (squared_norm) record->squared_norm = *squared_norm;
  record->fault = status->fault;
  status->fault = {};
  record->begun = status->begun;
  record->ended = gpu_nanoseconds();
  store_for_host(&record->ticket, status->ticket);
}

} // namespace

// The numbers travel as arguments of a kernel: a copy of the caller's variable could make the caller wait
// for the stream.
void begin_step(const cuda_stream& s, std::uint64_t step, std::uint64_t ticket) {
  launch(s, "begin_step", 1, 1, 0, begin_step_kernel, s.status, step, ticket);
}

void write_record(const cuda_stream& s, const float* loss, const double* squared_norm, step_record* record) {
  launch(s, "write_record", 1, 1, 0, record_kernel, loss, squared_norm, s.status, record);
}

} // namespace mailgrad::cuda
