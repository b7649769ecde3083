#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/graph/placement/replicate.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>

namespace mailgrad {
namespace {

[[noreturn]] void fail(const std::source_location& where, const std::string& what) {
  fail_with<graph_error>("{}: replicate: {}", line_of(where), what);
}

std::size_t common_batch(const named_values& inputs, const std::source_location& where) {
  if (inputs.all().empty()) fail(where, "there are no inputs to split");
  const named_value& first = inputs.all().front();
  for (const named_value& input : inputs.all()) {
    const shape& dims = input.what.dims(where);
    if (dims.rank() == 0)
      fail(where, fmt::format("input '{}' is a scalar, which has no batch to split", input.name));
    if (dims[0] != first.what.dims()[0])
      fail(where, fmt::format("input '{}' has a batch of {}, where '{}' has one of {}; all must be equal",
                              input.name, dims[0], first.name, first.what.dims()[0]));
  }
  return first.what.dims()[0];
}

named_values part_of(const named_values& inputs, std::size_t begin, std::size_t end,
                     const std::source_location& where) {
  std::vector<named_value> parts;
  for (const named_value& input : inputs.all()) {
    const bool whole = begin == 0 && end == input.what.dims()[0];
    parts.push_back({input.name, whole ? input.what : slice(input.what, 0, begin, end, where)});
  }
  return named_values(std::move(parts));
}

} // namespace

value named_values::at(std::string_view name, std::source_location where) const {
  const auto found = std::ranges::find(values_, name, &named_value::name);
  if (found != values_.end()) return found->what;
  std::string known;
  for (const named_value& v : values_) known.append(known.empty() ? "" : ", ").append(v.name);
  fail_with<graph_error>("{}: there is no value '{}' among {}", line_of(where), name, known);
}

value replicate(const batched_function& fn, std::span<const device> devices, const named_values& inputs,
                std::source_location where) {
  if (!fn) fail(where, "there is no function to build the parts with");
  if (devices.empty()) fail(where, "there are no devices");
  const std::size_t batch = common_batch(inputs, where);
  graph& g = inputs.all().front().what.owner();
  const std::vector<std::size_t> sizes = batch_parts(batch, devices.size());
  std::vector<value> results;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const device_scope here(g, devices[i], where);
    results.push_back(fn(part_of(inputs, begin, begin + sizes[i], where)));
    const shape& dims = results.back().dims(where);
    if (dims.rank() == 0 || dims[0] != sizes[i])
      fail(where,
           fmt::format("the function gives {} for a part of {} samples; its first extent must count them",
                       to_string(dims), sizes[i]));
    begin += sizes[i];
  }
  return results.size() == 1 ? results.front() : concat(results, 0, where);
}

std::vector<std::size_t> batch_parts(std::size_t batch, std::size_t parts) {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t size = batch / parts + (i < batch % parts ? 1 : 0);
    if (size > 0 || i == 0) sizes.push_back(size);
  }
  return sizes;
}

} // namespace mailgrad
