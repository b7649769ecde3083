#pragma once

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace mailgrad::testing {

/// Weights of a model, as a seed draws them, with a card.
inline saved_weights weights_of(const model_function& model, const data_split& data,
                                const std::string& text = {}) {
  const parameter_layout layout = lay_out(model, request_for(data, 1), 1);
  const std::vector<float> values = first_weights(layout, 3);
  saved_weights all{"small.safetensors", {}};
  for (const named_weights& w : weights_by_name(layout, values)) {
    tensor copy(w.dims);
    std::ranges::copy(w.values, copy.values().begin());
    all.variables.push_back({w.name, std::move(copy)});
  }
  all.card = card_for(text, data);
  return all;
}

} // namespace mailgrad::testing
