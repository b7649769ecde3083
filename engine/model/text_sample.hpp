#pragma once

#include <mailgrad/engine/model/evaluation.hpp>

namespace mailgrad {

struct text_sample_options {
  std::size_t length = 0;   ///< symbols to write; 0: none
  double temperature = 0.8; ///< divides the logits: below 1 prefers likely symbols; 0: always the likeliest
  std::uint64_t seed = 1;
  std::string prompt{}; ///< what the text continues; empty: a line break, or else the first symbol
};

/// Requires that a text can be written with these options and these symbols for the classes of a model.
/// Errors  std::invalid_argument for a temperature that is negative or not finite, or if the number of
///         symbols is 0 or differs from `classes`.
void require_writable(const text_sample_options& options, std::span<const std::string> symbols,
                      std::size_t classes);

/// Writes a text with a model of tokens. Each symbol is drawn from the model's prediction after the symbols
/// before it, as many as its window holds. The text continues the prompt, which is not part of the result.
/// The same weights, seed and prompt write the same text.
/// Shapes  parameters: float32[layout.size()]; symbols: UTF-8, one for each class of the request.
/// Errors  as require_writable; std::invalid_argument for a prompt with a symbol that the model does not
///         know; shape_error for other parameters than the layout has; std::invalid_argument for a request
///         without windows of tokens; graph_error as build_fitting; device_error.
std::string write_text(const model_function& build, model_request request, const parameter_layout& layout,
                       std::span<const float> parameters, std::span<const std::string> symbols,
                       const text_sample_options& options);
/// The same where `model` is, with the weights that it has.
std::string write_text(tested_model& model, std::span<const std::string> symbols,
                       const text_sample_options& options);

} // namespace mailgrad
