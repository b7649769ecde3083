#pragma once

#include <mailgrad/graph/program/program.hpp>

namespace mailgrad {

/// The values of an input or a variable in a trial_run.
struct feed {
  feed(const value& what, tensor&& holds)
      : source(what), values(std::make_shared<const tensor>(std::move(holds))) {}
  /// Copies the tensor.
  feed(const value& what, const tensor& holds);

  value source;
  std::shared_ptr<const tensor> values;
};

using feeds = std::vector<feed>;

/// Runs part of a graph without a data set, for trials of an operation.
///
/// Every input that the fetches need has to be fed. A variable that is not fed has the first values that its
/// initialiser draws from seed 1.
///
/// Errors  graph_error if a fed tensor has another shape or type than its value, or an input is not fed.
/// Threads one caller at a time.
class trial_run {
public:
  trial_run(std::span<const value> fetches, const feeds& fed);

  /// The values of a source, which the caller may change for the next run().
  tensor& of(const value& source);

  /// Runs the program once. Random operations draw from their seed and `step`.
  void run(std::uint64_t step = 0);

  /// A copy of the result of fetches[i] in the last run.
  template <class T = float>
  std::vector<T> fetched(std::size_t i) const {
    const auto* first = static_cast<const T*>(program_.fetched(i));
    return {first, first + fetches_[i].dims().size()};
  }

private:
  std::vector<value> fetches_;
  std::vector<std::pair<value, tensor>> held_;
  program program_;
};

/// Compiles and runs the nodes that `v` needs, and returns its values.
template <class T = float>
std::vector<T> run_once(const value& v, const feeds& fed = {}, std::uint64_t step = 0) {
  trial_run trial({&v, 1}, fed);
  trial.run(step);
  return trial.fetched<T>(0);
}

} // namespace mailgrad
