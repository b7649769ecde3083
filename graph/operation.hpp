#pragma once

#include <mailgrad/graph/value.hpp>
#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/tensor/device.hpp>

#include <memory>

namespace mailgrad {

/// The rows of a table that an operation reads: those whose numbers are elements first, first + stride and so
/// on of an operand.
struct rows_read {
  std::size_t operand = 0; ///< int32
  std::size_t first = 0;   ///< less than the elements of the operand, if that has any
  std::size_t stride = 1;  ///< at least 1
};

/// An operation that reads of a table only the rows that another operand names. Such a table need not be
/// where the operation reads it as a whole.
class row_reader {
public:
  virtual ~row_reader() = default;

  /// Which rows of operand `table` the operation reads; none if that is no such table. Whoever asks checks
  /// the answer, and refuses a wrong one by a graph_error.
  virtual std::optional<rows_read> rows_of(std::span<const value> inputs, std::size_t table) const = 0;
};

/// An executable that calls gemm(). A program on a GPU takes the memory that products work in before its
/// first run; for an executable that does not say so the first product takes it.
class multiplying {
public:
  virtual ~multiplying() = default;
};

enum class elementwise_function : std::uint8_t; // kernels/functors/elementwise_function.hpp

/// Memory that one call of a kernel reads and writes.
struct call {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  void* scratch;      ///< executable::scratch_bytes() bytes, 64-byte aligned, contents undefined
  std::uint64_t step; ///< number of the step; random operations draw from their seed and this number
  next_use output_use =
      next_use::soon; ///< `later` only if there is one output and no kernel of the program reads it

  template <class T = float>
  const T* in(std::size_t i) const noexcept {
    return static_cast<const T*>(inputs[i]);
  }
  template <class T = float>
  T* out(std::size_t i = 0) const noexcept {
    return static_cast<T*>(outputs[i]);
  }
};

/// A kernel that adds a bias to each row of a matrix. A product that makes the matrix can do so before it
/// writes it.
struct row_bias {
  std::size_t columns = 0;
};

/// An operation prepared for fixed shapes: its kernels are chosen, and constants of the call computed.
///
/// Errors  device_error; std::out_of_range for a row or a label that does not exist. A run throws nothing
///         else.
/// Threads one caller at a time. run() allocates nothing.
class executable {
public:
  virtual ~executable() = default;
  virtual std::size_t scratch_bytes() const noexcept { return 0; }
  virtual void run(const stream& s, const call& c) = 0;

  /// The bytes of output `i`, if the kernel keeps something else there than the value of the output, for the
  /// kernel of the gradient alone. No fetch and no other kernel may then read it.
  virtual std::optional<std::size_t> kept_bytes([[maybe_unused]] std::size_t i) const noexcept {
    return std::nullopt;
  }
  /// Whether input `i` must be what another kernel keeps so.
  virtual bool reads_kept([[maybe_unused]] std::size_t i) const noexcept { return false; }

  /// What this kernel is, if it adds its second operand to each row of its first.
  virtual std::optional<row_bias> as_row_bias() const noexcept { return std::nullopt; }
  /// Takes over what the kernel behind this one does to its result. The bias is then its last operand.
  /// Returns whether it does so.
  virtual bool take_row_bias(const row_bias&) { return false; }
};

/// Some rows of the gradient of a table; the others are zero. Rows that occur more than once are added up. A
/// negative row number ends the list.
struct sparse_rows {
  value rows;   ///< int32[n]
  value values; ///< float32[n, width]
};

/// The gradient of the loss with respect to one value. It is the sum of all parts, and zero without parts.
struct adjoint {
  std::optional<value> dense;
  std::vector<sparse_rows> sparse;

  adjoint() = default;
  adjoint(const value& v) : dense(v) {}
  adjoint(const sparse_rows& rows) : sparse{rows} {}
};

/// A kind of node with its attributes: its name, the shapes of its outputs, how to differentiate it and how
/// to run it. A new operation needs a class derived from this one (graph/operations/) and a function that
/// adds it to a graph. Its test compares the result with a plain loop and the gradient with central
/// differences.
class operation {
public:
  virtual ~operation() = default;

  virtual std::string_view name() const noexcept = 0;

  /// Returns the types of the outputs.
  /// Errors  shape_error; the caller puts the name of the operation before its text.
  virtual std::vector<value_type> infer(std::span<const value_type> inputs) const = 0;

  /// Adds nodes that compute the gradient with respect to each input. `dy` holds the gradient of each output,
  /// nothing where the loss does not depend on it. An input without a gradient (labels) gets an empty
  /// adjoint.
  virtual std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                        std::span<const std::optional<value>> dy) const;

  /// Chooses the kernels for these shapes on a device of that kind, and reserves scratch memory for no other.
  /// Errors  shape_error for shapes that the device does not compute; the caller names the user's line.
  virtual std::unique_ptr<executable> prepare(std::span<const value_type> inputs,
                                              std::span<const value_type> outputs,
                                              device_kind where) const = 0;

  /// Whether there are kernels for a device of that kind.
  virtual bool runs_on([[maybe_unused]] device_kind where) const noexcept { return true; }

  /// Whether output 0 is input 0 under another shape, which needs neither memory nor a kernel.
  virtual bool is_view() const noexcept { return false; }

  /// The input whose memory output 0 may take if no later step reads that input.
  virtual std::optional<std::size_t> overwrites() const noexcept { return std::nullopt; }

  /// The function, if output 0 is one function of the inputs, applied element by element. Neighbouring
  /// operations of this kind run as one kernel.
  virtual std::optional<elementwise_function> function() const noexcept { return std::nullopt; }

  /// The estimated cost in multiply-adds, by which a model is cut into stages of about equal work. A value
  /// that is written counts as work_per_value multiply-adds, about as many as a core does in that time.
  static constexpr double work_per_value = 16;
  virtual double work(std::span<const value_type> inputs, std::span<const value_type> outputs) const;

  /// The attributes in words, such as "axis 1"; empty if there are none. Pictures show them. A recording
  /// tells models apart by them, so operations that compute different results must differ in their
  /// attributes.
  virtual std::string describe() const { return {}; }
};

/// For infer(): a graph that was read may give an operation any number of operands.
///
/// Errors  shape_error unless there are `count` operands.
void require_operand_count(std::span<const value_type> inputs, std::size_t count);

/// What the kernels of an operation can do with values in bfloat16, on a GPU whose products are computed so.
/// An executable that derives from this is asked when its program is compiled, and told before it runs.
class bfloat16_form {
public:
  virtual ~bfloat16_form() = default;

  /// Whether operand `i` has to be bfloat16, since it is multiplied. This may depend on what was told so far
  /// of results.
  virtual bool needs(std::size_t i) const = 0;
  /// Whether operand `i` may be bfloat16.
  virtual bool may_read(std::size_t i) const { return needs(i); }
  /// Whether result `i` may be bfloat16.
  virtual bool may_write([[maybe_unused]] std::size_t i) const { return false; }

  /// From now on the operand, or the result, is bfloat16.
  void read_rounded(std::size_t i) { read_ |= 1U << i; }
  void write_rounded(std::size_t i) { written_ |= 1U << i; }

protected:
  read_numbers operand(const call& c, std::size_t i) const {
    if (reads_rounded(i)) return c.in<bfloat16>(i);
    return c.in(i);
  }
  written_numbers result(const call& c, std::size_t i) const {
    if (writes_rounded(i)) return c.out<bfloat16>(i);
    return c.out(i);
  }
  bool reads_rounded(std::size_t i) const { return (read_ >> i & 1U) != 0; }
  bool writes_rounded(std::size_t i) const { return (written_ >> i & 1U) != 0; }

private:
  std::uint32_t read_ = 0, written_ = 0;
};

} // namespace mailgrad
