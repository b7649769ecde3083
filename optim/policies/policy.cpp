#include <mailgrad/optim/policies/policy.hpp>

#include <mailgrad/optim/policies/async.hpp>
#include <mailgrad/optim/policies/hogwild.hpp>
#include <mailgrad/optim/policies/sync.hpp>
#include <mailgrad/tensor/nearest_name.hpp>

#include <algorithm>
#include <stdexcept>

namespace mailgrad {

std::vector<std::string_view> policy_names() {
  return {async_policy::policy_name, sync_policy::policy_name, hogwild_policy::policy_name};
}

void require_policy(std::string_view name) {
  const auto names = policy_names();
  if (std::ranges::find(names, name) != names.end()) return;
  throw std::invalid_argument("policy '" + std::string(name) + "' is unknown; did you mean '" +
                              std::string(nearest_name(name, names)) + "'?");
}

std::unique_ptr<policy> make_policy(std::string_view name) {
  require_policy(name);
  if (name == sync_policy::policy_name) return std::make_unique<sync_policy>();
  if (name == async_policy::policy_name) return std::make_unique<async_policy>();
  throw std::invalid_argument("policy '" + std::string(name) + "' runs without a parameter actor");
}

} // namespace mailgrad
