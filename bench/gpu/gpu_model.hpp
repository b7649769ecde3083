#pragma once

#include "gpu_timing.hpp"

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/kernels/update.hpp>
#include <mailgrad/kernels/vectors.hpp>

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace mailgrad::bench {

/// A model, and the batches that it learns from.
struct measured_model {
  const char* name;
  const char* model; ///< with its settings
  model_request request;
};

/// A model with its weights, gradients and one batch on the GPU.
class gpu_model {
public:
  gpu_model(cuda::gpu_queue& queue, const measured_model& m) : queue_(queue), arrays_(queue) {
    const model_outputs made = build_model(find_model(m.model), graph_, m.request);
    std::vector<value> fetches{made.loss};
    for (const adjoint& a : gradients(made.loss, graph_.variables())) fetches.push_back(a.dense.value());
    program_.emplace(graph_, fetches, std::span<const value>{}, queue);
    bind();
    const auto classes = static_cast<std::int32_t>(m.request.classes);
    for (const value& v : graph_.inputs())
      program_->bind(v, v.type().type == dtype::int32
                            ? static_cast<const void*>(arrays_.labels(v.dims().size(), classes))
                            : arrays_.floats(v.dims().size()));
  }

  void queue_step(const std::function<void(std::string_view)>& queued = {}) {
    const auto& s = std::get<cuda_stream>(queue_.where());
    program_->queue(s, queued);
    const scaled_gradient g{gradients_, 1};
    float* const velocity = velocity_;
    update(s, momentum_update{1e-4F, .9F}, {}, {{weights_, size_}, {weights_, size_}, {&g, 1}},
           {&velocity, 1});
  }
  std::size_t kernels() const { return program_->kernel_count() + 1; }
  std::vector<float> weights() {
    std::vector<float> there(size_);
    cuda::runtime::copy(std::get<cuda_stream>(queue_.where()).stream, there.data(), weights_,
                        size_ * sizeof(float));
    queue_.finish();
    return there;
  }

private:
  /// Weights and gradients lie one behind the other, as in a shard.
  void bind() {
    for (const value& v : graph_.variables())
      size_ += aligned(v.dims().size() * sizeof(float)) / sizeof(float);
    weights_ = arrays_.floats(size_);
    scale_in_place(queue_.where(), 0.05F, {weights_, size_}); // so that a hundred steps do not diverge
    gradients_ = arrays_.buffer<float>(size_);
    velocity_ = arrays_.buffer<float>(size_);
    program_->bind_fetch(0, arrays_.buffer<float>(1));
    std::size_t at = 0, fetch = 1;
    for (const value& v : graph_.variables()) {
      program_->bind(v, weights_ + at);
      program_->bind_fetch(fetch++, gradients_ + at);
      at += aligned(v.dims().size() * sizeof(float)) / sizeof(float);
    }
  }

  cuda::gpu_queue& queue_;
  gpu_arrays arrays_;
  graph graph_;
  std::optional<program> program_;
  std::size_t size_ = 0;
  float *weights_ = nullptr, *gradients_ = nullptr, *velocity_ = nullptr;
};

} // namespace mailgrad::bench
