#pragma once

#include <mailgrad/cli/commands/train_args.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/sample_array.hpp>
#include <mailgrad/engine/weights/predictor.hpp>
#include <mailgrad/tensor/error.hpp>

namespace mailgrad {

/// The options of the commands that use a trained model.
struct trained_args {
  std::string model_file;
  std::string model; ///< of weights that name none; empty: their own
  std::string data;
  std::uint64_t data_limit = parsed_limit().bytes >> 30; ///< in GiB
  std::string device = "cpu";
  table_args table;
};

void add_model_file(option_table& t, trained_args& w);
/// Adds --model, for weights that another program wrote.
void add_model_of_weights(option_table& t, trained_args& w);
void add_device(option_table& t, trained_args& w);
/// Adds --data, --data-limit and how tables are written. `what` is the help of --data.
void add_samples(option_table& t, trained_args& w, const std::string& what);

/// Opens the weights with their model, on the device. Weights that name no model get that of --model, as
/// `mailgrad train` would build it for --data.
///
/// Errors  file_error, std::invalid_argument: in one line, what is wrong with the file or with --model;
///         device_error, std::invalid_argument: likewise of the device.
predictor open_model(const trained_args& w);

/// Calls `use`, which computes a trained model.
///
/// Errors  as `use`; an out_of_memory of its GPU says what to do.
template <class Use>
int with_advice(const Use& use) {
  try {
    return use();
  } catch (const out_of_memory& e) {
    throw out_of_memory(e.what() + std::string("; leave --device out, and the host computes"));
  }
}

/// What becomes of a row without some value, if the model was trained without such rows.
enum class lacking_row { left_out, refused };

/// Opens samples as those that the model was trained on: the test part of a data set that has one, and
/// otherwise all of it. The training part is empty, or not to be used. Says on standard error what was
/// understood, and how many rows are left out.
///
/// Errors  file_error, std::invalid_argument: samples of another kind.
data_split open_samples(const trained_args& w, const model_card& card, lacking_row lacking);

} // namespace mailgrad
