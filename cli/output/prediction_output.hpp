#pragma once

#include <mailgrad/engine/weights/model_card.hpp>

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <span>
#include <stdexcept>
#include <vector>

namespace mailgrad {

/// Answers cannot be written; the reason is an errno. EPIPE: the reader has closed its end of a pipe.
class answers_not_written : public std::runtime_error {
public:
  explicit answers_not_written(int code);
  const int why;
};

/// Writes the answers of a model, a line for each sample.
///
///     csv          class,probability,T-shirt/top,Trouser,...    or  number, or  number1,number2
///     json_lines   {"class":"Trouser","probability":0.98,"probabilities":[...]}    or  {"numbers":[3.2]}
///
/// Where samples are files, the name of the file comes first: a column "file", or a field.
class prediction_output {
public:
  enum class form : std::uint8_t { csv, json_lines };

  prediction_output(std::ostream& out, const model_card& card, form how);

  /// Calls of one output all name files, or none does.
  ///
  /// Shapes  answers: float32[n, outputs], the logits or the numbers of a model; files: n of them, or none.
  /// Errors  answers_not_written.
  void write(std::span<const float> answers, std::span<const std::filesystem::path> files = {});

private:
  void write_header(bool names_files);
  std::size_t likeliest_in_row();
  void write_csv(std::span<const float> found, const std::filesystem::path* file);
  void write_json(std::span<const float> found, const std::filesystem::path* file);

  std::ostream& out_;
  const model_card& card_;
  form form_;
  bool begun_ = false;
  std::vector<float> row_;
};

} // namespace mailgrad
