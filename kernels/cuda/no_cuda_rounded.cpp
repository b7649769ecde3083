#include <mailgrad/kernels/cuda/attention.hpp>
#include <mailgrad/kernels/cuda/gemm.hpp>
#include <mailgrad/kernels/cuda/round_floats.hpp>

#include <mailgrad/tensor/require_host.hpp>

namespace mailgrad::cuda {

void round_floats(const cuda_stream& s, std::span<const float>, bfloat16*) { refuse_card(s, "round_floats"); }

void widen_floats(const cuda_stream& s, std::span<const bfloat16>, float*) { refuse_card(s, "widen_floats"); }

void gemm(const cuda_stream& s, const gemm_shape&, const bfloat16*, const bfloat16*, float*,
          const gemm_epilogue&) {
  refuse_card(s, "gemm");
}

void gemm(const cuda_stream& s, const gemm_shape&, const bfloat16*, const bfloat16*, bfloat16*,
          const bfloat16*) {
  refuse_card(s, "gemm");
}

void causal_attention(const cuda_stream& s, const attention_shape&, const bfloat16*, written_numbers,
                      float*) {
  refuse_card(s, "causal_attention");
}

void causal_attention_gradient(const cuda_stream& s, const attention_shape&, const bfloat16*, read_numbers,
                               const float*, const bfloat16*, written_numbers, void*) {
  refuse_card(s, "causal_attention_gradient");
}

} // namespace mailgrad::cuda
