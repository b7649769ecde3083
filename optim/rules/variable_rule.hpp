#pragma once

#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/optim/optimizer.hpp>

#include <array>

namespace mailgrad {

/// How one update counts.
struct step_terms {
  double rate = 0;        ///< the learning rate, with the schedule and the cure of staleness applied
  double factor = 1;      ///< what these two multiply a learning rate by
  double decay = 0;       ///< the decoupled weight decay, not multiplied by the rate
  std::uint64_t step = 1; ///< updates of the rule's state, this one included
};

/// One variable in one update.
struct variable_step : step_terms {
  std::size_t variable = 0;        ///< the index among those of the rule
  std::span<float> weights;        ///< in place: version t becomes t+1
  std::span<const float> gradient; ///< summed and scaled, l2 in it
};

/// Distinct rows of a table whose gradients come as rows, in one update.
struct rows_step : step_terms {
  row_update rows;
  std::size_t first = 0; ///< where `rows.weights` starts in the shard, in floats
  double l2 = 0;
};

/// An update rule that looks at a whole variable. It keeps its state for all variables of a shard. It
/// allocates when it is made, and an update does not.
/// Threads one caller at a time.
class variable_rule {
public:
  virtual ~variable_rule() = default;
  variable_rule(const variable_rule&) = delete;
  variable_rule& operator=(const variable_rule&) = delete;
  virtual void update(const variable_step& work) = 0;
  /// Errors  std::invalid_argument: the rule has no form for rows.
  virtual void update_rows(const rows_step& work);
  /// All of the state, the same names at every call.
  virtual std::vector<optimizer_state> state() = 0;

protected:
  variable_rule() = default;
};

/// The optimiser that runs a rule of whole variables.
/// Errors  std::invalid_argument: there are no variables; device_error for a device queue of a GPU.
std::unique_ptr<optimizer> make_variable_optimizer(const optimizer_options& options, std::size_t shard_size,
                                                   device_queue& at, std::vector<shard_variable> variables);

/// The names of the states of a user's rule.
inline constexpr std::array<std::string_view, MAILGRAD_PLUGIN_MOST_STATES> custom_state_names{
    "state 0", "state 1", "state 2", "state 3", "state 4", "state 5", "state 6", "state 7"};

/// Makes room for so many floats; what was there is lost where it grows.
inline void grow(block& memory, std::size_t floats) {
  if (memory.bytes() < floats * sizeof(float)) memory = block(floats * sizeof(float));
}

/// Products of matrices on the caller's thread. The memory that they need is taken before the first one.
/// Threads one caller at a time.
class matrix_products {
public:
  /// Takes the memory for products of this shape.
  void expect(const gemm_shape& g) {
    if (const std::size_t bytes = gemm_scratch_bytes(g); bytes > scratch_.bytes()) scratch_ = block(bytes);
  }
  /// c = a b, of a shape that was expected.
  void multiply(const gemm_shape& g, const float* a, const float* b, float* c) {
    gemm(host_stream{}, g, a, b, c, scratch_.data());
  }
  /// c = a b of square matrices of n rows.
  void multiply_square(std::size_t n, const float* a, const float* b, float* c) {
    multiply({n, n, n}, a, b, c);
  }

private:
  block scratch_;
};

} // namespace mailgrad
