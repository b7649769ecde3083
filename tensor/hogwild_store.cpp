#include <mailgrad/tensor/hogwild_store.hpp>

#include <algorithm>

namespace mailgrad {

hogwild_store::hogwild_store(std::span<const float> initial)
    : memory_(initial.size_bytes()), values_(memory_.as<float>().data()), size_(initial.size()) {
  std::ranges::copy(initial, values_);
}

void hogwild_store::load(std::size_t first, std::span<float> out) const noexcept {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = std::atomic_ref{values_[first + i]}.load(std::memory_order_relaxed);
}

void hogwild_store::store(std::size_t first, std::span<const float> values) noexcept {
  for (std::size_t i = 0; i < values.size(); ++i)
    std::atomic_ref{values_[first + i]}.store(values[i], std::memory_order_relaxed);
}

} // namespace mailgrad
