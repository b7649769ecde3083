#pragma once

#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/tensor/device.hpp>

namespace mailgrad {

/// A trained model, ready to be used. It needs no actor, no thread and no data set.
///
///     predictor trained(load_weights("lenet.safetensors"));
///     std::vector<float> chances(trained.outputs());
///     trained.probabilities(picture, chances); // of one picture, in bytes' values 0 to 255
///
/// A first call for a number of samples builds a program for it; later ones allocate nothing. On a GPU it
/// has a copy of the weights and a queue, and waits there, as a tested_model does.
/// Threads one caller at a time; each thread may have one of its own, made from the same weights.
class predictor {
public:
  /// The model is that of the model card in the file. It computes on the host, or on `place`, a GPU.
  /// Errors  std::invalid_argument: the weights have no model card, it names no model, or they do not fit it;
  ///         graph_error as build_model(); device_error as tested_model. All that compute: device_error, and
  ///         graph_error if no GPU computes an operation of the model.
  explicit predictor(const saved_weights& trained, device place = {});
  /// The model is a function of the program's own.
  predictor(model_function model, const saved_weights& trained, device place = {});
  ~predictor();
  predictor(predictor&&) noexcept;

  const model_card& card() const noexcept { return card_; }
  /// The numbers of one sample, for models of plain numbers; 0 for others.
  std::size_t inputs() const noexcept;
  /// The numbers of one answer: a logit for each class, or what is predicted.
  std::size_t outputs() const noexcept { return card_.request.outputs(); }

  /// The answers to samples whose numbers are those of the files that the model was trained on: the predictor
  /// divides them as the model card says.
  /// Shapes  samples: float32[n, inputs()]; answers: float32[n, outputs()].
  /// Errors  std::invalid_argument for other lengths, or a model that does not read plain numbers.
  void answers(std::span<const float> samples, std::span<float> answers);
  /// The same, as probabilities of the classes.
  /// Errors  std::invalid_argument also for a model that predicts numbers.
  void probabilities(std::span<const float> samples, std::span<float> chances);
  /// The answers to samples of a data set, whose numbers have been divided when it was opened.
  /// Shapes  and errors are those of predict() in evaluation.hpp.
  std::vector<float> answers(const dataset& samples) { return predict(*model_, samples); }
  /// How good the answers are; as evaluate() in evaluation.hpp.
  evaluation test(const dataset& samples, const std::function<bool()>& stop = {});
  /// Writes a text; as write_text() in text_sample.hpp.
  std::string text(const text_sample_options& options) {
    return write_text(*model_, card_.class_names, options);
  }

private:
  struct pass;
  pass& pass_for(std::size_t samples);
  void require_numbers(std::span<const float> samples, std::span<const float> answers) const;

  model_card card_;
  std::shared_ptr<const parameter_layout> layout_;
  std::vector<float> parameters_;
  std::unique_ptr<tested_model> model_;
  std::map<std::size_t, std::unique_ptr<pass>> passes_; ///< by number of samples
};

/// Turns logits into probabilities, row by row, in place.
/// Shapes  values: float32[n, classes].
void softmax_rows(std::span<float> values, std::size_t classes);

} // namespace mailgrad
