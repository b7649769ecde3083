#pragma once

#include <mailgrad/engine/model/evaluation.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace mailgrad {

/// What `mailgrad test` has found.
struct test_result {
  std::string model_file;
  std::string data;
  std::size_t samples = 0;
  std::vector<std::string> class_names; ///< empty: classes have numbers alone
  evaluation found;
};

/// The figures of one class.
struct class_figures {
  std::uint64_t samples = 0; ///< of this class
  std::uint64_t answers = 0; ///< that name this class
  std::uint64_t correct = 0; ///< of both
  double precision() const {
    return answers == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(answers);
  }
  double recall() const {
    return samples == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(samples);
  }
};

/// By class; empty where evaluation::confusion is.
std::vector<class_figures> by_class(const evaluation& e);

/// The result for a terminal: the figures of the whole, of each class, and the confusion matrix of up to 20
/// classes.
std::string in_words(const test_result& r);
/// The result as a JSON object.
std::string to_json(const test_result& r);

} // namespace mailgrad
