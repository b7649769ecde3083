#pragma once

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/graph/program/program_plan.hpp>
#include <mailgrad/tests/support/gpu_array.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace mailgrad::testing {

/// A model of a batch with the gradients of all its variables, and values for what it reads.
class trained_model {
public:
  trained_model(const char* name, model_request request) : request_(std::move(request)) {
    const model_outputs made = build_model(find_model(name), graph_, request_);
    fetches_ = {made.loss, made.logits};
    for (const adjoint& a : gradients(made.loss, graph_.variables())) {
      if (a.dense) fetches_.push_back(*a.dense);
      for (const sparse_rows& rows : a.sparse) {
        fetches_.push_back(rows.rows); // whole numbers, which are compared as if they were none
        fetches_.push_back(rows.values);
      }
    }
    for (const value& v : graph_.variables()) draw_variable(v);
    for (const value& v : graph_.inputs()) draw_input(v);
  }

  void set_labels(std::int32_t label) {
    for (auto& [source, values] : fed_)
      if (source.type().type == dtype::int32)
        std::fill_n(reinterpret_cast<std::int32_t*>(values.data()), values.size(), label);
  }

  std::vector<std::vector<float>> on_host(std::uint64_t step) {
    program p(graph_, fetches_);
    for (const auto& [source, values] : fed_) p.bind(source, values.data());
    p.run(host_stream{}, step, {});
    std::vector<std::vector<float>> results;
    for (std::size_t i = 0; i < fetches_.size(); ++i) {
      const auto* first = static_cast<const float*>(p.fetched(i));
      results.emplace_back(first, first + fetches_[i].dims().size());
    }
    return results;
  }

  std::vector<std::vector<float>> on_gpu(cuda::gpu_queue& queue, std::uint64_t step) {
    program_on_gpu p(*this, queue);
    p.code.run(queue.where(), step, {});
    return p.read();
  }

  /// A program of this model with its memory on a GPU.
  struct program_on_gpu {
    program_on_gpu(const trained_model& model, cuda::gpu_queue& on)
        : queue(on), code(model.graph_, model.fetches_, {}, on) {
      for (const auto& [source, values] : model.fed_) {
        const auto* first = reinterpret_cast<const float*>(values.data());
        sources.emplace_back(queue, std::vector<float>(first, first + values.size()));
        code.bind(source, sources.back().data());
      }
      for (std::size_t i = 0; i < model.fetches_.size(); ++i) {
        results.emplace_back(queue, model.fetches_[i].dims().size());
        code.bind_fetch(i, results.back().data());
      }
    }
    std::vector<std::vector<float>> read() {
      if (const auto fault = queue.take_fault()) code.raise(*fault);
      std::vector<std::vector<float>> values;
      for (const auto& r : results) values.push_back(r.read());
      return values;
    }

    cuda::gpu_queue& queue;
    program code;
    std::vector<gpu_array<float>> sources, results;
  };

  /// The arena of the values alone, without scratch memory.
  std::size_t value_bytes() const { return plan_program(graph_, fetches_, {}).arena_bytes; }
  std::size_t kernels_on_host() const { return program(graph_, fetches_).kernel_count(); }

private:
  void draw_variable(const value& v) {
    const node& n = graph_.of(v);
    tensor values(n.outputs[0].dims);
    initialise(std::get<variable_node>(n.what).first_values, 1, n.name, values.values());
    for (float& w : values.values()) w += .01F; // biases begin at 0, which would hide theirs
    fed_.emplace_back(v, std::move(values));
  }
  void draw_input(const value& v) {
    if (v.type().type == dtype::float32) {
      fed_.emplace_back(v, test::random_tensor(v.dims(), 5));
      return;
    }
    tensor drawn(v.dims(), dtype::int32);
    std::minstd_rand random(3);
    auto* const first = reinterpret_cast<std::int32_t*>(drawn.data());
    std::size_t at = 0;
    const std::vector<std::size_t>& rows = request_.categories;
    std::generate_n(first, drawn.size(), [&] {
      const bool of_table = graph_.of(v).name == "categories";
      return static_cast<std::int32_t>(random() % (of_table ? rows[at++ % rows.size()] : request_.classes));
    });
    if (graph_.of(v).name == "offsets")
      for (std::size_t i = 0; i < drawn.size(); ++i)
        first[i] = static_cast<std::int32_t>(i * request_.nonzeros / (drawn.size() - 1));
    fed_.emplace_back(v, std::move(drawn));
  }

  graph graph_;
  model_request request_;
  std::vector<value> fetches_;
  std::vector<std::pair<value, tensor>> fed_;
};

/// The largest difference as a share of the largest value, since a gradient's small values are sums of large
/// ones.
inline double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::isnan(b[i]) ? 1e30
                                           : std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    largest = std::max(largest, std::abs(static_cast<double>(a[i])));
  }
  return most / largest;
}

} // namespace mailgrad::testing
