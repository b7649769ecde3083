#pragma once

#include <mailgrad/engine/model/bound_model.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mailgrad {

struct text_sample_options {
  std::size_t length = 0; ///< symbols to write; 0: none
  double temperature =
      0.8; ///< logits are divided by it: below 1 bolder, 1 as learnt; 0: always the likeliest
  std::uint64_t seed = 1;
};

/// Whether a text can be written so, with these symbols for the classes of a model.
///
/// Errors  std::invalid_argument for a temperature that is negative or no number, or other than `classes`
///         symbols, or none.
void require_writable(const text_sample_options& options, std::span<const std::string> symbols,
                      std::size_t classes);

/// Text that a model of tokens writes: each symbol is drawn from what the model expects behind those before
/// it, as many of them as its window holds. The first stands behind a line break, or behind the first symbol
/// where there is no line break. The same weights and seed write the same text.
///
/// Shapes  parameters: float32[layout.size()]; symbols: UTF-8, one for each class of the request.
/// Errors  as require_writable; shape_error for other parameters than the layout has; std::invalid_argument
///         for a request without windows of tokens; graph_error as build_fitting; device_error.
std::string write_text(const model_function& build, model_request request, const parameter_layout& layout,
                       std::span<const float> parameters, std::span<const std::string> symbols,
                       const text_sample_options& options);

} // namespace mailgrad
