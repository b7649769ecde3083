#include <mailgrad/kernels/cuda/map_weights.hpp>
#include <mailgrad/kernels/cuda/step_record.hpp>
#include <mailgrad/kernels/cuda/update.hpp>
#include <mailgrad/kernels/cuda/update_rows.hpp>

#include <mailgrad/tensor/require_host.hpp>

namespace mailgrad::cuda {

void update(const cuda_stream& s, const update_rule&, const weight_penalty&, const weight_update&,
            std::span<float* const>) {
  refuse_card(s, "update");
}

void update_summed_rows(const cuda_stream& s, const update_rule&, const weight_penalty&,
                        const summed_row_update&, std::span<float* const>) {
  refuse_card(s, "update_summed_rows");
}

void begin_update(const cuda_stream& s, const update_rule&, const weight_penalty&) {
  refuse_card(s, "begin_update");
}

void update_as_begun(const cuda_stream& s, const update_rule&, const weight_update&,
                     std::span<float* const>) {
  refuse_card(s, "update");
}

void write_record(const cuda_stream& s, const float*, const double*, step_record*) {
  refuse_card(s, "write_record");
}

void map_weights(const cuda_stream& s, const weight_function&, std::span<const float* const>,
                 std::span<float* const>, std::size_t) {
  refuse_card(s, "map_weights");
}

} // namespace mailgrad::cuda
