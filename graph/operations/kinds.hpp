#pragma once

#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/kernels/elementwise.hpp>

// What the sources of operations share: an operation as a struct of what is particular to it, and its kernel
// as a function.
namespace mailgrad {

using type_list = std::span<const value_type>;
using value_list = std::span<const value>;
using onnx_list = std::span<const onnx_value>;

template <class Run>
class function_kernel final : public executable {
public:
  function_kernel(Run run, std::size_t scratch_bytes) : run_(std::move(run)), scratch_bytes_(scratch_bytes) {}
  std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }
  void run(const stream& s, const call& c) override { run_(s, c); }

private:
  Run run_;
  std::size_t scratch_bytes_;
};

/// An executable that calls `run`, a function of a stream and a call.
template <class Run>
std::unique_ptr<executable> kernel(Run run, std::size_t scratch_bytes = 0) {
  return std::make_unique<function_kernel<Run>>(std::move(run), scratch_bytes);
}

/// Which operands and results may be bfloat16 on a GPU: number i if bit i is set.
struct rounded_places {
  std::uint32_t operands = 0, results = 0;
};

template <class Run>
class rounding_kernel final : public executable, public bfloat16_form {
public:
  rounding_kernel(rounded_places may_be, Run run) : may_be_(may_be), run_(std::move(run)) {}
  void run(const stream& s, const call& c) override { run_(s, c, *this); }
  bool needs(std::size_t) const override { return false; }
  bool may_read(std::size_t i) const override { return (may_be_.operands >> i & 1U) != 0; }
  bool may_write(std::size_t i) const override { return (may_be_.results >> i & 1U) != 0; }
  using bfloat16_form::operand;
  using bfloat16_form::result;

private:
  rounded_places may_be_;
  Run run_;
};

/// The same for numbers that may be bfloat16 on a GPU. `run` also gets the executable, whose operand() and
/// result() have the type that each is of.
template <class Run>
std::unique_ptr<executable> kernel(rounded_places may_be, Run run) {
  return std::make_unique<rounding_kernel<Run>>(may_be, std::move(run));
}

/// What a kernel is prepared for.
struct fixed_types {
  type_list inputs, outputs;
  device_kind where;
};

/// An operation of a graph whose gradient is asked for.
struct differentiated {
  value_list inputs, outputs;
  std::span<const std::optional<value>> dy; ///< of each output, if the loss depends on it

  /// The line of the user's program that added the operation.
  std::source_location where() const { return outputs[0].owner().of(outputs[0]).where; }
  /// Adds an operation of the gradient in that line. Returns its outputs.
  std::vector<value> apply(operation_node op, std::vector<value> operands) const {
    return outputs[0].owner().apply(std::move(op), std::move(operands), where());
  }
};

/// The operation that a struct of its attributes describes. Kind has
///
///     static constexpr std::string_view name; // or a member, or a function
///     std::vector<value_type> infer(type_list inputs) const;
///     std::unique_ptr<executable> prepare(const fixed_types& t) const;
///
/// and may have the following. The classes that operation_of derives from tell what each is.
///
///     static constexpr std::size_t operands;    // how many infer() requires
///     static constexpr std::size_t overwritten; // the input that output 0 may overwrite; or a function
///     elementwise_function function;            // as operation::function()
///     static constexpr bool is_view = true;     // in place of prepare()
///     static constexpr bool on_cpu_alone = true; // runs_on() refuses a GPU
///     std::vector<adjoint> gradient(const differentiated& d) const;
///     double more_work(type_list inputs, type_list outputs) const; // than that of writing the results
///     void keep(archive& a);
///     std::string describe() const;
///     std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list outputs) const;
///     std::optional<rows_read> rows_of(value_list inputs, std::size_t table) const;
template <class Kind>
class operation_of final : public operation,
                           public onnx_form,
                           public row_reader,
                           public serialisable<operation_of<Kind>> {
public:
  operation_of(Kind kind = Kind()) : kind_(std::move(kind)) {}

  void keep([[maybe_unused]] archive& a) {
    static_assert(kept<Kind> || std::is_empty_v<Kind>, "a kind with attributes keeps them");
    if constexpr (kept<Kind>) kind_.keep(a);
  }
  std::string_view name() const noexcept override {
    if constexpr (requires { kind_.name(); })
      return kind_.name();
    else
      return kind_.name;
  }
  std::vector<value_type> infer(type_list inputs) const override {
    if constexpr (requires { Kind::operands; }) require_operand_count(inputs, Kind::operands);
    return kind_.infer(inputs);
  }
  std::vector<adjoint> gradient(value_list inputs, value_list outputs,
                                std::span<const std::optional<value>> dy) const override {
    const differentiated d{inputs, outputs, dy};
    if constexpr (requires { kind_.gradient(d); }) return kind_.gradient(d);
    return operation::gradient(inputs, outputs, dy);
  }
  std::unique_ptr<executable> prepare([[maybe_unused]] type_list inputs, [[maybe_unused]] type_list outputs,
                                      [[maybe_unused]] device_kind where) const override {
    if constexpr (!requires { Kind::is_view; }) return kind_.prepare({inputs, outputs, where});
    return nullptr;
  }
  bool runs_on(device_kind where) const noexcept override {
    return where == device_kind::cpu || !requires { Kind::on_cpu_alone; };
  }
  bool is_view() const noexcept override {
    return requires { Kind::is_view; };
  }
  std::optional<std::size_t> overwrites() const noexcept override {
    if constexpr (requires { kind_.overwritten(); }) return kind_.overwritten();
    if constexpr (requires { std::size_t{Kind::overwritten}; }) return Kind::overwritten;
    return std::nullopt;
  }
  std::optional<elementwise_function> function() const noexcept override {
    if constexpr (requires { kind_.function; }) return kind_.function;
    return std::nullopt;
  }
  double work(type_list inputs, type_list outputs) const override {
    const double writing = operation::work(inputs, outputs);
    if constexpr (requires { kind_.more_work(inputs, outputs); })
      return writing + kind_.more_work(inputs, outputs);
    return writing;
  }
  std::string describe() const override {
    if constexpr (requires { kind_.describe(); }) return kind_.describe();
    return {};
  }
  std::vector<std::string> to_onnx([[maybe_unused]] onnx_nodes& to, [[maybe_unused]] onnx_list inputs,
                                   [[maybe_unused]] onnx_list outputs) const override {
    if constexpr (requires { kind_.to_onnx(to, inputs, outputs); }) return kind_.to_onnx(to, inputs, outputs);
    return {};
  }
  std::optional<rows_read> rows_of([[maybe_unused]] value_list inputs,
                                   [[maybe_unused]] std::size_t table) const override {
    if constexpr (requires { kind_.rows_of(inputs, table); }) return kind_.rows_of(inputs, table);
    return std::nullopt;
  }

private:
  Kind kind_;
};

template <class Kind>
operation_node made(Kind kind) {
  return std::make_shared<operation_of<Kind>>(std::move(kind));
}

/// Keeps the attributes of a kind, each behind its name.
template <class... NamesAndAttributes>
void keep_attributes(archive& a, NamesAndAttributes&&... each) {
  const auto keep_next = [&a](const auto& self, const char* name, auto& attribute, auto&... rest) -> void {
    a.field(name, attribute);
    if constexpr (sizeof...(rest) > 0) self(self, rest...);
  };
  a.version(1);
  keep_next(keep_next, each...);
}

/// Adds the operations of these kinds, which are to be read from bytes.
template <class... Kinds>
void add_kinds(operation_registry& to, Kinds... blanks) {
  (to.add(operation_of<Kinds>(std::move(blanks))), ...);
}

// Each family adds its own kinds, those of gradients too.
void add_attention_kinds(operation_registry& to);
void add_elementwise_kinds(operation_registry& to);
void add_embedding_kinds(operation_registry& to);
void add_movement_kinds(operation_registry& to);
void add_product_kinds(operation_registry& to);
void add_quadratic_kinds(operation_registry& to);
void add_reduction_kinds(operation_registry& to);
void add_row_kinds(operation_registry& to);
void add_window_kinds(operation_registry& to);

/// Rows along the last axis.
struct row_grid {
  explicit row_grid(const shape& s) : columns(s.back()), rows(columns == 0 ? 0 : s.size() / columns) {}
  std::size_t columns, rows;
};

} // namespace mailgrad
