#pragma once

#include <mailgrad/engine/delays/delay_law.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace mailgrad {

/// An amount that each worker has its own of: "2", "sqrt(i)", "i^2", "1+4*i".
///
/// It may have numbers, i (that of the worker, from 1), n (of all workers), + - * / ^, parentheses, sqrt().
class worker_formula {
public:
  /// Errors  std::invalid_argument in one line: the text is no formula.
  explicit worker_formula(std::string_view text);

  const std::string& text() const noexcept { return text_; }
  /// May be infinite or NaN, as in "1/(i-1)" for the first worker.
  double of(std::uint32_t worker, std::uint32_t workers) const;

private:
  std::string text_;
};

class dataset;

/// The law by which the steps of all workers take time, parsed once from the text of an option.
class delay_spec {
public:
  /// "exp", "gamma:cv=0.1,mean=2", "constant:sqrt(i)", "list:1,1,4", "trace:times.csv". A trace is read here.
  /// Errors  std::invalid_argument in one line that says what would be right; file_error for a trace.
  delay_spec(std::string_view text, std::uint32_t workers);

  const std::string& text() const noexcept { return text_; }
  std::uint32_t workers() const noexcept { return workers_; }
  /// The times of one worker. Those of the same seed are the same. The worker must be among `workers()`.
  std::unique_ptr<delay_law> law_of(rank worker, std::uint64_t seed) const;
  /// Refuses data whose samples the law says nothing of.
  /// Errors  std::invalid_argument.
  void require_fits(const dataset& samples) const;

private:
  std::string text_;
  std::uint32_t workers_;
  std::size_t classes_; ///< of samples whose times the law lists; 0: it asks for none
  std::function<std::unique_ptr<delay_law>(std::uint32_t worker, std::uint64_t seed)> make_;
};

/// How each law is written, with all its settings, and what it does in a few words.
struct delay_form {
  std::string_view text;
  std::string_view what;
};
std::vector<delay_form> delay_forms();

} // namespace mailgrad
