#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/graph/models/model.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// What a file of weights tells of its model, so that the model can be built and used without the data that
/// it was trained on.
struct model_card {
  /// The text that find_model() understands, "mlp:hidden=128", or the JSON text of a model file. Empty: a
  /// model function of the user's own, which whoever loads the weights must bring.
  std::string model{};
  /// The samples and the answers that the model was built for. Batch, devices and seed say nothing here.
  model_request request{};
  /// The name of each class, or for a text its symbols; empty if the data gave none.
  std::vector<std::string> class_names{};
  /// What each number of a sample was divided by before the model saw it: one for all, or one each; empty:
  /// nothing.
  std::vector<float> divisors{};
  /// How the rows of the CSV file became samples; without columns for other data.
  table_layout table{};
  /// Whether the libsvm file called its first column 0, and not 1.
  bool counts_from_zero = false;
};

/// The card of a model that is trained on `data`; `model` as model_card::model.
model_card card_for(std::string model, const data_split& data);

/// The card as JSON. parse_model_card() gives back an equal one.
std::string to_json(const model_card& card);

/// Reads a card.
///
/// Errors  std::invalid_argument in one line, with the field, what was expected and what was found.
model_card parse_model_card(std::string_view json);

} // namespace mailgrad
