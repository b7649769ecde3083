#include <mailgrad/actors/remote/gradient_rooms.hpp>

#include <numeric>

namespace mailgrad::remote {

gradient_rooms::gradient_rooms(std::shared_ptr<const parameter_layout> layout) {
  for (std::size_t s = 0; s < layout->shard_count(); ++s)
    by_shard_.emplace_back([layout] { return make_gradient(*layout, block::for_overwrite); });
}

std::size_t gradient_rooms::count() const noexcept {
  return std::accumulate(by_shard_.begin(), by_shard_.end(), std::size_t{0},
                         [](std::size_t sum, const auto& pool) { return sum + pool.size(); });
}

} // namespace mailgrad::remote
