#pragma once

#include <mailgrad/graph/value.hpp>

#include <map>
#include <variant>
#include <vector>

namespace mailgrad {

/// An attribute of an ONNX node, such as axis = 1.
struct onnx_attribute {
  std::string name;
  std::variant<std::int64_t, float, std::vector<std::int64_t>> value;
};

/// A node in the words of ONNX.
struct onnx_node {
  std::string type; ///< of operator set onnx_nodes::opset
  std::vector<std::string> inputs;
  std::vector<std::string> outputs; ///< the first is also the name of the node
  std::vector<onnx_attribute> attributes;
};

/// Numbers that a node of ONNX reads, such as the extents of a reshape.
struct onnx_constant {
  std::string name;
  std::vector<std::int64_t> dims; ///< {} is a scalar
  std::variant<std::vector<float>, std::vector<std::int64_t>> values;
};

/// A value of a model that is being written: what ONNX calls it, and its type for one size of the batch.
struct onnx_value {
  std::string name;
  value_type type;
  std::array<bool, shape::max_rank> varies{}; ///< which extents depend on the size of the batch
};

/// The nodes of a model that is written as ONNX. Each operation adds those that compute the same.
///
/// Threads one caller at a time.
class onnx_nodes {
public:
  /// The version of ONNX's operators; 17 is the first with LayerNormalization. Files of it have the version
  /// `ir` of the format.
  static constexpr std::int64_t opset = 17, ir = 8;

  /// Marks a name as taken by a variable or an input.
  void take(const std::string& name);
  /// The names of the nodes that are added from now on begin with this one.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  /// Adds a node; returns the name of its first output.
  std::string add(std::string type, std::vector<std::string> inputs,
                  std::vector<onnx_attribute> attributes = {});
  /// Adds a node with several outputs; returns their names.
  std::vector<std::string> add_several(std::string type, std::vector<std::string> inputs, std::size_t outputs,
                                       std::vector<onnx_attribute> attributes = {});

  /// Adds a constant, or finds an equal one; returns its name.
  std::string whole_number(std::int64_t scalar);
  std::string whole_numbers(std::vector<std::int64_t> list);
  std::string number(float scalar);
  std::string numbers(std::vector<std::int64_t> dims, std::vector<float> values);

  /// Gives an output of a node another name, or one like it if that is taken; returns the new name.
  std::string rename_output(const std::string& from, const std::string& to);

  const std::vector<onnx_node>& nodes() const noexcept { return nodes_; }
  const std::vector<onnx_constant>& constants() const noexcept { return constants_; }

private:
  std::string unused(const std::string& name);
  std::string constant(onnx_constant wanted);

  std::string prefix_;
  std::map<std::string, std::size_t> taken_; ///< each name, and the number for the next like it
  std::vector<onnx_node> nodes_;
  std::vector<onnx_constant> constants_;
};

/// An operation that can be written as nodes of ONNX. An operation derives from this class beside
/// `operation`; a model with one that does not cannot be written.
class onnx_form {
public:
  virtual ~onnx_form() = default;

  /// Adds nodes that compute the same as the operation. Returns the names of its outputs; those at the end
  /// may be left out if only a gradient reads them. Returns nothing if these inputs have no such form.
  virtual std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                           std::span<const onnx_value> outputs) const = 0;
};

} // namespace mailgrad
