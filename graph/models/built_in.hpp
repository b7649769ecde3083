#pragma once

#include <mailgrad/graph/models/layer_stack.hpp>

#include <array>
#include <optional>
#include <string_view>

namespace mailgrad {

inline constexpr std::array<std::string_view, 3> built_in_models{"softmax", "mlp", "lenet"};

/// The layers of a built-in model, nothing if there is none of that name.
///
///   softmax  one dense layer; with rows that are mostly zero, only the weights of their entries are touched
///   mlp      dense layers of 512 and 256 with relu, then one of the classes. Settings:
///            "mlp:hidden=512x256,activation=relu,dropout=0"
///   lenet    two convolutions with 32 and 64 filters of 5 x 5 and max pooling, then a dense layer of 512
///
/// Source  of lenet: LeCun, Bottou, Bengio & Haffner, Proc. IEEE 86(11), 1998, in the wider form that
///         TensorFlow's tutorials made common, with relu and max pooling.
/// Errors  std::invalid_argument for a setting that the model does not have, or a value that is none.
std::optional<layer_stack> built_in_model(std::string_view name_and_settings);

} // namespace mailgrad
