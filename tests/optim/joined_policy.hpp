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

} // namespace mailgrad::testing
