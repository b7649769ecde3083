#pragma once

#include <mailgrad/graph/models/layer_stack.hpp>
#include <mailgrad/options/settings.hpp>

namespace mailgrad {

/// A model that needs no file.
struct built_in_form {
  std::string_view name;
  std::string_view what; ///< one line for --help, with all settings and their defaults
  /// Takes every setting that the model has. The caller refuses settings that are left over.
  model_function (*make)(settings&);
};

/// All built-in models. A new one is added in built_in.cpp.
std::span<const built_in_form> built_in_forms() noexcept;

/// Their names, in the same order.
std::vector<std::string_view> built_in_models();

/// Makes the built-in model of "name" or "name:key=value,..."; returns nothing if no model has that name.
///
/// Errors  std::invalid_argument for a setting that the model does not have, or a value that does not fit.
std::optional<model_function> built_in_model(std::string_view name_and_settings);

/// The built-in model "mlp": dense layers of these widths, each followed by an activation, then one of the
/// classes or of the numbers to predict.
///
/// Errors  std::invalid_argument for a width of 0.
model_function mlp(std::vector<std::size_t> hidden, activation after_each = activation::relu);

/// Dense layers as wide as the setting "hidden" says, each followed by an activation and dropout, then a
/// dense layer of the classes.
///
/// Errors  as built_in_model.
layer_stack mlp_layers(settings& s);

/// Two convolutions with 32 and 64 filters of 5 x 5 and max pooling, then a dense layer of 512.
///
/// Source  LeCun, Bottou, Bengio & Haffner, Proc. IEEE 86(11), 1998, in the wider form that TensorFlow's
///         tutorials made common, with relu and max pooling.
layer_stack lenet_layers();

} // namespace mailgrad
