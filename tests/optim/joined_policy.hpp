#pragma once

#include <mailgrad/optim/policies/policy_spec.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace mailgrad::testing {

/// The policy of that text, in which workers 0, 1, ... take part.
inline std::unique_ptr<policy> joined(const std::string& text, std::uint32_t workers) {
  auto p = make_policy(text, workers);
  for (std::uint32_t r = 0; r < workers; ++r) p->join({r});
  return p;
}

/// A gradient of that step of a worker.
inline gradient_stamp from(std::uint32_t worker, std::uint64_t step = 1) { return {{worker}, step, 0, 0}; }

/// A gradient computed from one version when the shard is at another.
inline gradient_stamp between(std::uint32_t worker, std::uint64_t read, std::uint64_t now) {
  return {{worker}, now + 1, read, now};
}

} // namespace mailgrad::testing
