#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/tensor/device.hpp>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

struct named_value {
  std::string name;
  value what;
};

/// Values found by name.
class named_values {
public:
  named_values(std::initializer_list<named_value> values) : values_(values) {}
  explicit named_values(std::vector<named_value> values) : values_(std::move(values)) {}

  /// Errors  graph_error, naming the caller's line and the names there are.
  value at(std::string_view name, std::source_location where = std::source_location::current()) const;

  const std::vector<named_value>& all() const noexcept { return values_; }

private:
  std::vector<named_value> values_;
};

/// Maps batches to a batch: every value's first axis counts the samples.
using batched_function = std::function<value(const named_values&)>;

/// In-graph replication: splits every input along the batch, builds `fn` once for each device on that
/// device's part, and joins what it returns along the batch. Variables are made once and shared, since they
/// go by name.
///
///   value y = model({{"x", x}});                                   // on one device
///   value y = replicate(model, devices, {{"x", x}});               // on several
///
/// A batch that does not divide evenly gives the first devices one sample more; one smaller than the devices
/// leaves the last ones out. Gradients of shared variables are summed where the last of their parts is
/// computed.
///
/// Source  Abadi et al., OSDI 2016, section 4.4, of TensorFlow 1's in-graph replication.
/// Shapes  inputs: [batch, ...] of one batch; result: [batch, ...] as `fn` has it.
/// Errors  graph_error, naming the caller's line: no devices or inputs, one that is not there, inputs of
///         different batches, a result that is not a batch of as many samples.
value replicate(const batched_function& fn, std::span<const device> devices, const named_values& inputs,
                std::source_location where = std::source_location::current());

/// Samples for each of `parts`: as equal as can be, the first ones one more; those without any are left out.
std::vector<std::size_t> batch_parts(std::size_t batch, std::size_t parts);

} // namespace mailgrad
