#pragma once

#include <mailgrad/engine/shard/push_gradient.hpp>

#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

namespace mailgrad::testing {

/// The message with which `worker` pushes a gradient.
inline push_gradient push_of(std::uint32_t worker, std::uint64_t step, std::uint64_t version_read,
                             std::shared_ptr<const gradient> values, float scale = 1,
                             std::uint64_t epoch = 0) {
  return {{{{}, {worker}, {}, {step}}, {version_read}, {epoch}, std::bit_cast<std::uint32_t>(scale)},
          {std::move(values)}};
}

} // namespace mailgrad::testing
