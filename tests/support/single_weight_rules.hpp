#pragma once

#include <mailgrad/optim/optimizer_options.hpp>

#include <string_view>
#include <vector>

namespace mailgrad::testing {

/// The names of the built-in rules that need to be told of variables, or need not.
inline std::vector<std::string_view> rules_that_see(bool whole_variables) {
  std::vector<std::string_view> names;
  for (const std::string_view name : optimizer_names())
    if (sees_whole_variables(parse_optimizer(name)) == whole_variables) names.push_back(name);
  return names;
}
inline std::vector<std::string_view> single_weight_rules() { return rules_that_see(false); }
inline std::vector<std::string_view> whole_variable_rules() { return rules_that_see(true); }

} // namespace mailgrad::testing
