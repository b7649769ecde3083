#include <mailgrad/kernels/cuda/launch.hpp>
#include <mailgrad/kernels/cuda/step_record.hpp>

namespace mailgrad::cuda {

namespace {

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

void write_record(const cuda_stream& s, const float* loss, const double* squared_norm, step_record* record) {
  launch(s, "write_record", 1, 1, 0, record_kernel, loss, squared_norm, s.words, record);
}

} // namespace mailgrad::cuda
