#pragma once

#include <mailgrad/kernels/functors/update_rule.hpp>
#include <mailgrad/optim/custom_rule.hpp>
#include <mailgrad/optim/schedule.hpp>
#include <mailgrad/tensor/shape.hpp>

#include <cmath>

namespace mailgrad {

/// What a setting of a rule may be.
enum class setting_range : std::uint8_t {
  any,           ///< of a number: at least 0
  factor,        ///< at least 0 and less than 1
  signed_factor, ///< more than -1 and less than 1
  small,         ///< at least 0, and a float32 holds it
  positive,      ///< the same, but more than 0
  counted,       ///< at least 1
  matrix_side    ///< of a matrix for which Shampoo keeps another one: 16 GiB at most
};

// Each rule has a struct for what it needs beyond the options that all rules share. Defaults are PyTorch's,
// except the momentum, which is 0 there. Each factor is per step and without a unit. Its `visit` is the list
// of its settings: it calls x(name, value, range) with each, in the order in which they are written.

struct sgd_options {
  static constexpr std::string_view name = "sgd";
  static constexpr double default_learning_rate = 1e-3;
  static void visit(auto&, auto&&) {}
};

struct momentum_options {
  static constexpr std::string_view name = "momentum";
  static constexpr double default_learning_rate = 1e-3;
  double momentum = 0.9;
  static void visit(auto& o, auto&& x) { x("momentum", o.momentum, setting_range::signed_factor); }
};

struct nesterov_options {
  static constexpr std::string_view name = "nesterov";
  static constexpr double default_learning_rate = 1e-3;
  double momentum = 0.9;
  static void visit(auto& o, auto&& x) { x("momentum", o.momentum, setting_range::factor); }
};

struct adagrad_options {
  static constexpr std::string_view name = "adagrad";
  static constexpr double default_learning_rate = 1e-2;
  double epsilon = 1e-10;
  double initial_sum = 0; ///< where each sum of squares starts
  static void visit(auto& o, auto&& x) {
    x("epsilon", o.epsilon, setting_range::small);
    x("initial_sum", o.initial_sum, setting_range::small);
  }
};

struct rmsprop_options {
  static constexpr std::string_view name = "rmsprop";
  static constexpr double default_learning_rate = 1e-2;
  double alpha = 0.99; ///< weight of the past in the mean square
  double epsilon = 1e-8;
  static void visit(auto& o, auto&& x) {
    x("alpha", o.alpha, setting_range::factor);
    x("epsilon", o.epsilon, setting_range::small);
  }
};

struct adam_options {
  static constexpr std::string_view name = "adam";
  static constexpr double default_learning_rate = 1e-3;
  double beta1 = 0.9;   ///< weight of the past in the mean gradient
  double beta2 = 0.999; ///< weight of the past in the mean square
  double epsilon = 1e-8;
  static void visit(auto& o, auto&& x) {
    x("beta1", o.beta1, setting_range::factor);
    x("beta2", o.beta2, setting_range::factor);
    x("epsilon", o.epsilon, setting_range::small);
  }
};

/// Adam with decoupled weight decay, 0.01 unless `optimizer_options::weight_decay` says otherwise.
struct adamw_options : adam_options {
  static constexpr std::string_view name = "adamw";
  static constexpr double default_weight_decay = 1e-2;
};

/// Asynchronous DiLoCo: the outer optimiser of a shard whose `period` workers send differences of local
/// steps.
struct delayed_nesterov_options {
  static constexpr std::string_view name = "delayed-nesterov";
  static constexpr double default_learning_rate = 0.7;
  double momentum = 0.9;
  std::uint64_t period = 1; ///< gradients between two moves of the momentum; at least 1
  double early = 0;         ///< c: the part of the momentum in each step between two moves, 0 to 1 / period
  static void visit(auto& o, auto&& x) {
    x("momentum", o.momentum, setting_range::factor);
    x("period", o.period, setting_range::any);
    x("early", o.early, setting_range::any);
  }
};

// Rules that look at whole variables (optim/rules/). Their defaults are those of their papers or programs.

struct lars_options {
  static constexpr std::string_view name = "lars";
  static constexpr bool whole_variables = true;
  static constexpr double default_learning_rate = 1;
  static constexpr double default_weight_decay = 5e-4; ///< in the velocity, as LARS has it
  double momentum = 0.9;
  double trust = 1e-3; ///< the length of a step over that of the weights, at learning rate 1
  static void visit(auto& o, auto&& x) {
    x("momentum", o.momentum, setting_range::factor);
    x("trust", o.trust, setting_range::small);
  }
};

struct lamb_options {
  static constexpr std::string_view name = "lamb";
  static constexpr bool whole_variables = true;
  static constexpr double default_learning_rate = 1e-3;
  static constexpr double default_weight_decay = 1e-2; ///< in the step, as LAMB has it
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  static void visit(auto& o, auto&& x) {
    x("beta1", o.beta1, setting_range::factor);
    x("beta2", o.beta2, setting_range::factor);
    x("epsilon", o.epsilon, setting_range::small);
  }
};

struct muon_options {
  static constexpr std::string_view name = "muon";
  static constexpr bool whole_variables = true;
  static constexpr double default_learning_rate = 2e-2;
  static constexpr std::string_view default_adamw = "table+logits";
  double momentum = 0.95;
  bool nesterov = true;
  /// Words with '+' between them; a variable with one in its name takes AdamW. These are the embeddings and
  /// the last product of gpt, which the author gives to AdamW too.
  std::string adamw = std::string(default_adamw);
  double adamw_rate = 3e-4; ///< the learning rate of AdamW, under the same schedule
  double beta1 = 0.9;       ///< of AdamW, like the two below
  double beta2 = 0.95;
  double epsilon = 1e-10;
  static void visit(auto& o, auto&& x) {
    x("momentum", o.momentum, setting_range::factor);
    x("nesterov", o.nesterov, setting_range::any);
    x("adamw", o.adamw, setting_range::any);
    x("adamw_rate", o.adamw_rate, setting_range::small);
    x("beta1", o.beta1, setting_range::factor);
    x("beta2", o.beta2, setting_range::factor);
    x("epsilon", o.epsilon, setting_range::small);
  }
};

struct shampoo_options {
  static constexpr std::string_view name = "shampoo";
  static constexpr bool whole_variables = true;
  static constexpr double default_learning_rate = 0.1;
  double epsilon = 1e-4;
  std::uint64_t every = 10;     ///< updates between two computations of the roots, at least 1
  std::uint64_t largest = 1024; ///< a longer side has no matrix of its own
  static void visit(auto& o, auto&& x) {
    x("epsilon", o.epsilon, setting_range::positive);
    x("every", o.every, setting_range::counted);
    x("largest", o.largest, setting_range::matrix_side);
  }
};

/// How a shard turns gradients into its next version.
struct optimizer_options {
  std::variant<sgd_options, momentum_options, nesterov_options, adagrad_options, rmsprop_options,
               adam_options, adamw_options, delayed_nesterov_options, lars_options, lamb_options,
               muon_options, shampoo_options, custom_rule>
      rule{};
  std::optional<double> learning_rate{}; ///< per step, before the schedule; unset: the rule's default
  learning_rate_schedule schedule{};
  double l2 = 0;                        ///< in the loss: the gradient becomes g + l2 * w
  std::optional<double> weight_decay{}; ///< decoupled: w loses learning rate * weight_decay * w; unset: the
                                        ///< rule's default, which is 0 for most
  double clip_norm = 0;                 ///< largest global norm a worker's gradient may have; 0: any
};

/// `options.learning_rate`, or the rule's default.
double base_learning_rate(const optimizer_options& options);

/// `options.weight_decay`, or the rule's default.
double base_weight_decay(const optimizer_options& options);

/// Whether the rule looks at whole variables. A shard is then cut between variables only, and its optimiser
/// must be told of them.
bool sees_whole_variables(const optimizer_options& options);

/// The name in a report: "adam", or "lion (./liblion.so)" for a plug-in.
std::string_view name(const optimizer_options& options);

/// The names that parse_optimizer() reads, for a help text.
std::span<const std::string_view> optimizer_names();

/// The settings of a rule of Mailgrad's, in the order in which parse_optimizer() reads them; none for
/// another.
std::vector<std::string_view> optimizer_setting_names(std::string_view rule);

/// Reads the name of a rule and its settings, if any: "adam" or "adam:beta1=0.8,epsilon=1e-6". A path loads
/// the plug-in and takes its rule: "./libmine.so:beta=0.9".
/// Errors  std::invalid_argument, in one line with the nearest right name or the range of a value, or as
///         load_plugin() has it.
optimizer_options parse_optimizer(std::string_view text);

/// Errors  std::invalid_argument, in one line that names the option, its value and its range.
void require_valid(const optimizer_options& options);

/// The functor of Adam's step `step`, counted from 1.
inline adam_update adam_step(const adam_options& o, double rate, std::uint64_t step) {
  const auto t = static_cast<double>(step);
  const double bias1 = 1 - std::pow(o.beta1, t);
  const double bias2 = 1 - std::pow(o.beta2, t);
  return adam_update{static_cast<float>(rate / bias1), static_cast<float>(o.beta1),
                     static_cast<float>(1 - o.beta1),  static_cast<float>(o.beta2),
                     static_cast<float>(1 - o.beta2),  static_cast<float>(1 / std::sqrt(bias2)),
                     static_cast<float>(o.epsilon)};
}

/// A variable that lies whole in a shard, for rules that look at more than one weight.
struct shard_variable {
  std::string name;
  shape dims;
  std::size_t offset = 0; ///< floats from the start of the shard
  bool in_rows = false;   ///< it is a table whose gradient is a list of rows
};

/// A variable as a matrix, row-major.
struct matrix_dims {
  std::size_t rows = 1;
  std::size_t columns = 1;
};

/// A product x * w with weights [in, units] has them as they are. Filters [height, width, in, filters] become
/// (height * width * in) x filters, so a column always has the weights of one unit or filter. A vector is one
/// row.
inline matrix_dims as_matrix(const shape& dims) {
  const std::size_t columns = dims.rank() == 0 ? 1 : dims[dims.rank() - 1];
  return {columns == 0 ? 0 : dims.size() / columns, columns};
}

} // namespace mailgrad
