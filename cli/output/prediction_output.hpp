#pragma once

#include <mailgrad/engine/weights/model_card.hpp>

#include <cstdint>
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
class prediction_output {
public:
  enum class form : std::uint8_t { csv, json_lines };

  prediction_output(std::ostream& out, const model_card& card, form how);

  /// Shapes  answers: float32[n, outputs], the logits or the numbers of a model.
  /// Errors  answers_not_written.
  void write(std::span<const float> answers);

private:
  void write_header();
  void write_one(std::span<const float> answer);

  std::ostream& out_;
  const model_card& card_;
  form form_;
  bool begun_ = false;
  std::vector<float> row_;
};

} // namespace mailgrad
