#include <mailgrad/graph/onnx_nodes.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mailgrad {

void onnx_nodes::take(const std::string& name) { taken_.emplace(name, 1); }

std::string onnx_nodes::unused(const std::string& name) {
  std::string candidate = name;
  while (taken_.contains(candidate)) candidate = fmt::format("{}_{}", name, taken_[name]++);
  take(candidate);
  return candidate;
}

std::string onnx_nodes::add(std::string type, std::vector<std::string> inputs,
                            std::vector<onnx_attribute> attributes) {
  return add_several(std::move(type), std::move(inputs), 1, std::move(attributes)).front();
}

std::vector<std::string> onnx_nodes::add_several(std::string type, std::vector<std::string> inputs,
                                                 std::size_t outputs,
                                                 std::vector<onnx_attribute> attributes) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs; ++i) names.push_back(unused(prefix_ + type));
  nodes_.push_back({std::move(type), std::move(inputs), names, std::move(attributes)});
  return names;
}

std::string onnx_nodes::constant(onnx_constant wanted) {
  const auto equal = [&](const onnx_constant& c) {
    return c.dims == wanted.dims && c.values == wanted.values;
  };
  if (const auto known = std::ranges::find_if(constants_, equal); known != constants_.end())
    return known->name;
  wanted.name = unused("constant");
  constants_.push_back(std::move(wanted));
  return constants_.back().name;
}

std::string onnx_nodes::whole_numbers(std::vector<std::int64_t> list) {
  return constant({{}, {static_cast<std::int64_t>(list.size())}, std::move(list)});
}

std::string onnx_nodes::whole_number(std::int64_t scalar) { return constant({{}, {}, std::vector{scalar}}); }
std::string onnx_nodes::number(float scalar) { return constant({{}, {}, std::vector{scalar}}); }

std::string onnx_nodes::numbers(std::vector<std::int64_t> dims, std::vector<float> values) {
  return constant({{}, std::move(dims), std::move(values)});
}

std::string onnx_nodes::rename_output(const std::string& from, const std::string& to) {
  const std::string name = unused(to);
  for (onnx_node& n : nodes_) {
    std::ranges::replace(n.inputs, from, name);
    std::ranges::replace(n.outputs, from, name);
  }
  return name;
}

} // namespace mailgrad
