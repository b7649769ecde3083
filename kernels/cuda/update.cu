#include <mailgrad/kernels/cuda/launch.hpp>
#include <mailgrad/kernels/cuda/update.hpp>
#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad::cuda {

namespace {

/// The most gradients that one call takes, since the list is an argument of the kernel.
constexpr std::size_t most_gradients = 16;

struct gradient_list {
  scaled_gradient items[most_gradients];
  std::size_t count;

  __device__ float sum(std::size_t k) const {
    float total = 0;
    for (std::size_t i = 0; i < count; ++i) total += items[i].scale * items[i].values[k];
    return total;
  }
};

template <std::size_t states>
struct state_list {
  float* items[states == 0 ? 1 : states];
};

template <class Rule, std::size_t... i>
__device__ void step(const Rule& rule, float& w, float g, const state_list<Rule::states>& state,
                     std::size_t k, std::index_sequence<i...>) {
  rule(w, g, state.items[i][k]...);
}

template <class Rule>
__global__ void update_kernel(Rule rule, const float* weights, float* updated, gradient_list gradients,
                              state_list<Rule::states> state, std::size_t n) {
  const std::size_t stride = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t k = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; k < n; k += stride) {
    float w = weights[k];
    step(rule, w, gradients.sum(k), state, k, std::make_index_sequence<Rule::states>{});
    updated[k] = w;
  }
}

template <class Rule>
void run(const cuda_stream& s, const Rule& rule, const weight_update& work, const gradient_list& gradients,
            std::span<float* const> state) {
  state_list<Rule::states> pointers{};
  std::copy(state.begin(), state.end(), pointers.items);
  const std::size_t n = work.weights.size();
  if (n == 0) return;
  launch(s, "update", blocks_for(n), threads_per_block, 0, update_kernel<Rule>, rule, work.weights.data(),
         work.updated.data(), gradients, pointers, n);
}

} // namespace

void update(const cuda_stream& s, const update_rule& rule, const weight_penalty& penalty,
            const weight_update& work, std::span<float* const> state) {
  if (work.gradients.size() > most_gradients)
    throw shape_error("update: " + std::to_string(work.gradients.size()) +
                      " gradients at once; a GPU takes " + std::to_string(most_gradients));
  gradient_list gradients{};
  gradients.count = work.gradients.size();
  std::copy(work.gradients.begin(), work.gradients.end(), gradients.items);
  std::visit(
      [&](const auto& r) {
        using rule_type = std::decay_t<decltype(r)>;
        if (penalty.none())
          run(s, r, work, gradients, state);
        else
          run(s, penalised_update<rule_type>{r, penalty}, work, gradients, state);
      },
      rule);
}

} // namespace mailgrad::cuda
