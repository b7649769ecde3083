#pragma once

#include <mailgrad/graph/graph.hpp>

namespace mailgrad {

struct named_value {
  std::string name;
  value what;
};

class named_values {
public:
  named_values(std::initializer_list<named_value> values) : values_(values) {}
  explicit named_values(std::vector<named_value> values) : values_(std::move(values)) {}

  /// Errors  graph_error, which lists the names that exist and the caller's line, for any other name.
  value at(std::string_view name, std::source_location where = std::source_location::current()) const;

  const std::vector<named_value>& all() const noexcept { return values_; }

private:
  std::vector<named_value> values_;
};

/// A function from batches to a batch. The first axis of every value counts the samples.
using batched_function = std::function<value(const named_values&)>;

/// In-graph replication: splits every input along the batch, calls `fn` for each device with that device's
/// part, and joins the results along the batch. The calls share their variables, since these have the same
/// names.
///
///   value y = model({{"x", x}});                                   // on one device
///   value y = replicate(model, devices, {{"x", x}});               // on several
///
/// If the batch does not divide evenly, the first devices get one sample more. If it is smaller than the
/// number of devices, the last devices get none. The gradient of a shared variable is summed on the device
/// that computes its last part.
///
/// Source  Abadi et al., OSDI 2016, section 4.4, on TensorFlow's in-graph replication.
/// Shapes  inputs: [batch, ...], all of one batch; result: [batch, ...], with the other extents that `fn`
///         gives.
/// Errors  graph_error, naming the caller's line: no function, devices or inputs, a device that this machine
///         lacks, inputs of different batches, a result of `fn` that is not a batch of as many samples as its
///         part.
value replicate(const batched_function& fn, std::span<const device> devices, const named_values& inputs,
                std::source_location where = std::source_location::current());

/// The number of samples in each part of a batch. The parts are as equal as possible, and the first ones get
/// one more. Parts without samples are left out.
std::vector<std::size_t> batch_parts(std::size_t batch, std::size_t parts);

} // namespace mailgrad
