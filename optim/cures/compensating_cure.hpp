#pragma once

#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/optim/cures/cure.hpp>
#include <mailgrad/optim/kept_memory.hpp>

#include <initializer_list>

namespace mailgrad {

/// What cures share that replace a gradient, by functors of kernels/vectors.hpp where the shard lies.
class compensating_cure : public cure {
public:
  bool compensates() const noexcept override { return true; }
  void keep(archive& a) override { a.version(1); }

protected:
  explicit compensating_cure(const cure_site& site) : at_(site.at) {}
  /// A float of state for each weight of the shard, 0 at first.
  memory allocate(const cure_site& site) const { return at_->allocate(site.shard_size * sizeof(float)); }
  /// The floats of a state, for kernels.
  auto of(auto& state) const { return state.template on<float>(at_->where()); }
  void keep_state(archive& a, const std::string& name, memory& state) { keep_floats(a, name, state, *at_); }
  /// Calls `f` for each weight, with an element of all that it reads and writes. The last of `writes` has as
  /// many elements as the shard has weights.
  void map(const weight_function& f, std::span<const float* const> reads,
           std::initializer_list<std::span<float>> writes) const {
    std::array<float*, 3> pointers{};
    std::ranges::transform(writes, pointers.begin(), [](std::span<float> x) { return x.data(); });
    map_weights(at_->where(), f, reads, std::span(pointers).first(writes.size()), (writes.end() - 1)->size());
  }
  /// Writes the gradient itself, times a factor.
  void copy(const stale_gradient& g, float factor, std::span<float> applied) const {
    map(scaled_copy{factor}, std::array{g.values.data()}, {applied});
  }

private:
  std::shared_ptr<device_queue> at_;
};

} // namespace mailgrad
