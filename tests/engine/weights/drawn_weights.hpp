#pragma once

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>

#include <algorithm>
#include <string>
#include <vector>

// Weights of a model without a run that trained them.

namespace mailgrad::testing {

/// The first weights of a model, as a seed draws them, with a card. Biases, which begin with zeros, get other
/// values, too.
inline saved_weights drawn_weights(const model_function& model, model_card card) {
  const parameter_layout layout = lay_out(model, card.request, 1);
  std::vector<float> values = first_weights(layout, 3);
  saved_weights all{"drawn.safetensors", {}};
  for (const named_weights& w : weights_by_name(layout, values)) {
    tensor copy(w.dims);
    std::ranges::copy(w.values, copy.values().begin());
    if (w.dims.rank() == 1)
      for (std::size_t i = 0; i < copy.values().size(); ++i)
        copy.values()[i] += 0.05F * static_cast<float>(i % 7) - 0.1F;
    all.variables.push_back({w.name, std::move(copy)});
  }
  all.card = std::move(card);
  return all;
}

/// The same for a model of this data, whose name is `text`.
inline saved_weights drawn_weights(const model_function& model, const data_split& data,
                                   const std::string& text = {}) {
  return drawn_weights(model, card_for(text, data));
}

/// The same for a model that the card names.
inline saved_weights drawn_weights(model_card card) {
  const model_function model = find_model(card.model);
  return drawn_weights(model, std::move(card));
}

} // namespace mailgrad::testing
