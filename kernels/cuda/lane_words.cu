#include <mailgrad/kernels/cuda/lane_words.hpp>
#include <mailgrad/kernels/cuda/launch.hpp>

namespace mailgrad::cuda {

namespace {

__global__ void begin_step_kernel(lane_words* words, std::uint64_t step, std::uint64_t ticket) {
  words->step = step;
  words->ticket = ticket;
  words->begun = card_nanoseconds();
}

__global__ void record_kernel(const float* loss, const double* squared_norm, lane_words* words,
                              step_record* record) {
  record->loss = *loss;
  if (squared_norm) record->squared_norm = *squared_norm;
  record->fault = words->fault;
  words->fault = {};
  record->begun = words->begun;
  record->ended = card_nanoseconds();
  store_for_host(&record->ticket, words->ticket);
}

} // namespace

// The numbers travel as arguments of a kernel: a copy of the caller's variable could make the caller wait
// for the stream.
void begin_step(const cuda_stream& s, std::uint64_t step, std::uint64_t ticket) {
  launch(s, "begin_step", 1, 1, 0, begin_step_kernel, s.words, step, ticket);
}

void write_record(const cuda_stream& s, const float* loss, const double* squared_norm, step_record* record) {
  launch(s, "write_record", 1, 1, 0, record_kernel, loss, squared_norm, s.words, record);
}

} // namespace mailgrad::cuda
