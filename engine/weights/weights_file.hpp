#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/tensor/tensor.hpp>

#include <filesystem>
#include <map>

namespace mailgrad {

/// What a safetensors file says of itself in its texts.
enum class kind_of_file : std::uint8_t {
  weights, ///< that a run of Mailgrad has saved
  checkpoint,
  best_weights, ///< beside the checkpoints of a run
  other
};
kind_of_file kind_of(const std::map<std::string, std::string>& texts);

// The texts by which a file says so.
inline constexpr const char* card_key = "mailgrad"; ///< of weights, with their model
inline constexpr const char* checkpoint_format_key = "format";
inline constexpr const char* checkpoint_format = "mailgrad checkpoint 1";
inline constexpr const char* best_weights_part = "best weights";

// The name of a checkpoint begins and ends so.
inline constexpr std::string_view checkpoint_prefix = "checkpoint-";
inline constexpr std::string_view checkpoint_suffix = ".safetensors";

/// Requires files that are to be read as weights to be no part of a run that goes on. Nothing happens if
/// `path` is another folder, or not there.
/// Errors  file_error in one line that says what to do: a folder of checkpoints.
void require_no_checkpoints_in(const std::filesystem::path& path);
/// Requires a file that may have weights: no folder, not empty, and no model of ONNX or pickle of PyTorch,
/// which people take for weights. Nothing happens if `path` is not there, or a pipe or a device.
/// Errors  file_error in one line that says what it is, and what to do.
void require_no_foreign_file(const std::filesystem::path& path);
/// Requires a file that may be a checkpoint: not empty, and none of the other files that a run reads or
/// leaves: weights, a model of ONNX, a recording, a report. Nothing happens if `path` is not there.
/// Errors  file_error in one line that says what it is, and what goes on from it.
void require_may_be_checkpoint(const std::filesystem::path& path);
/// Errors  file_error, likewise: a checkpoint, or the best weights of a run. `path` has these texts.
void require_no_checkpoint(const std::filesystem::path& path,
                           const std::map<std::string, std::string>& texts);

/// What a file of weights tells of its model, so that it can be built and used without the training data.
struct model_card {
  /// The text that find_model() understands, "mlp:hidden=128", or the JSON text of a model file. Empty: a
  /// model function of the user's own, which whoever loads the weights must bring.
  std::string model{};
  /// The samples and the answers that the model was built for. Batch, devices and seed say nothing here.
  model_request request{};
  /// The name of each class, or for a text its symbols; empty if the data gave none.
  std::vector<std::string> class_names{};
  /// What each number of a sample was divided by: one for all, or one each; empty: nothing.
  std::vector<float> divisors{};
  table_layout table{}; ///< how the rows of the CSV file became samples; without columns for other data
  bool counts_from_zero = false; ///< whether the libsvm file called its first column 0, and not 1
};

/// The card of a model that is trained on `data`; `model` as model_card::model.
model_card card_for(std::string model, const data_split& data);

/// The card as JSON. parse_model_card() gives back an equal one.
std::string to_json(const model_card& card);

/// Reads a card.
/// Errors  std::invalid_argument in one line, with the field, what was expected and what was found.
model_card parse_model_card(std::string_view json);

/// The values of a variable, by its name. They stay where they are.
struct named_weights {
  std::string name;
  shape dims;
  std::span<const float> values;
};

/// The variables of a model in the order of its layout.
/// Shapes  parameters: float32[layout.size()], which must outlive the result.
/// Errors  std::invalid_argument for another length.
std::vector<named_weights> weights_by_name(const parameter_layout& layout, std::span<const float> parameters);

/// Weights that were loaded, and what their file tells of the model.
struct saved_weights {
  struct variable {
    std::string name;
    tensor values; ///< float32
  };

  std::string file;                 ///< for messages
  std::vector<variable> variables;  ///< in the order of the file
  std::optional<model_card> card{}; ///< none in a file that another program wrote
  std::string report{};             ///< of the run that trained them, as JSON; may be empty
  /// Why other arrays of the file are no weights, a line each: "array 'seen' holds numbers of type 'I64'".
  std::vector<std::string> others{};

  const variable* find(std::string_view name) const noexcept;
};

/// Writes weights as a safetensors file, which Python's `safetensors` and PyTorch open. The card and the
/// report stand in its metadata, under "mailgrad" and "report". A path that ends in ".npz" makes an archive
/// of numpy instead, in which both are arrays of bytes, "__mailgrad__" and "__report__". An older file gives
/// way to a whole one.
/// Errors  file_error if the file cannot be written; std::invalid_argument for variables of one name.
void save_weights(const std::filesystem::path& path, std::span<const named_weights> weights,
                  const model_card& card, const std::string& report = {});

/// The bytes that save_weights() writes at most, if the report takes 16 KiB; that of a long run is longer.
std::uint64_t bytes_to_save(const parameter_layout& layout, const model_card& card);

/// Reads a safetensors file or an archive of numpy, of this program or of another. The first bytes tell
/// which. Arrays whose numbers are no floats are not read.
/// Errors  file_error in one line: it is no file of weights but a folder, a checkpoint, a model of ONNX or
///         another, and what to do; the file is damaged, its card is, or a weight is not finite.
saved_weights load_weights(const std::filesystem::path& path);

/// The card that came with the weights.
/// Errors  std::invalid_argument: they have none.
const model_card& card_of(const saved_weights& trained);

/// The model that the card names.
/// Errors  std::invalid_argument: they have no card, or it is that of a program's own model function.
model_function model_of(const saved_weights& trained);

/// How weights of a file fit the variables of a model.
struct weights_fit {
  std::vector<float> parameters; ///< float32[layout.size()]: what fits; the rest as it was given
  std::vector<std::string> taken;
  std::vector<std::string> differences; ///< a line each, variables of the model first
};

/// Copies every variable whose name and shape the file has too into `first`, the values of all variables.
/// Shapes  first: float32[layout.size()].
/// Errors  std::invalid_argument for another length.
weights_fit fit(const saved_weights& from, const parameter_layout& layout, std::vector<float> first);

/// Requires that the weights fit every variable, and that none is left over.
/// Errors  std::invalid_argument with the first difference, and how many there are.
void require_whole(const saved_weights& from, const weights_fit& found);

/// Requires that at least one variable was taken.
/// Errors  std::invalid_argument with the first difference.
void require_some(const saved_weights& from, const weights_fit& found);

} // namespace mailgrad
