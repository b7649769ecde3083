#pragma once

#include <mailgrad/optim/optimizer_options.hpp>

#include <string_view>
#include <vector>

namespace mailgrad::testing {

/// The names of the built-in rules that need not be told of variables.
inline std::vector<std::string_view> single_weight_rules() {
  std::vector<std::string_view> names;
  for (const std::string_view name : optimizer_names())
    if (!sees_whole_variables(parse_optimizer(name))) names.push_back(name);
  return names;
}

/// The names of the others.
inline std::vector<std::string_view> whole_variable_rules() {
  std::vector<std::string_view> names;
  for (const std::string_view name : optimizer_names())
    if (sees_whole_variables(parse_optimizer(name))) names.push_back(name);
  return names;
}

} // namespace mailgrad::testing
