#pragma once

#include <mailgrad/engine/account/metrics_line.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/files/archive.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// A figure of a line of metrics and the bound that it shall reach, as "test_loss<0.3".
struct stop_condition {
  enum class comparison : std::uint8_t { below, at_most, above, at_least };

  std::string figure; ///< its name
  comparison reaches = comparison::below;
  double bound = 0;

  bool holds(const metrics_line& x) const;
};

/// Which samples the weights of a run are tested on while it goes on.
enum class judged_on : std::uint8_t { nothing, test, validation };

/// Reads one condition or several, of which any is enough: "train_loss<0.3", "accuracy>=0.9, time_s>600". A
/// name is that of a column of metrics. `loss`, `accuracy` and `rmse` stand for those of the samples that the
/// weights are tested on during the run; `loss` is that of training if there are none.
///
/// Errors  std::invalid_argument in one line: no condition; an unknown name, with the one that may have been
///         meant; a figure of tests that the run does not make; a bound that is no number.
std::vector<stop_condition> parse_stop_conditions(std::string_view text, judged_on samples);

/// Whether any of these names in such a text is a figure of tests, so that it asks for tests during the run.
///
/// Errors  std::invalid_argument, as parse_stop_conditions().
bool asks_for_tests(std::string_view text);

/// What the tests of a run have shown so far, from which an early_stop goes on after an interruption.
struct judged_tests {
  std::uint64_t steps = 0; ///< trained when the last of them began
  std::uint64_t worse = 0; ///< tests since the one with the lowest loss
  std::optional<double> lowest_loss{};
  /// Steps that the whole run had trained at the test with the lowest loss, those of workers that do not go
  /// on included.
  std::uint64_t lowest_at = 0;

  void keep(archive& a);
  friend bool operator==(const judged_tests&, const judged_tests&) = default;
};

/// Which tests an early_stop counts.
enum class counted_tests : std::uint8_t {
  for_patience, ///< those of a run that has patience
  always        ///< all, since the run keeps the weights of the best one
};

/// Decides when a run has been trained enough: a condition holds, or its tests have not got better for a
/// while.
///
/// Threads one caller at a time.
class early_stop {
public:
  /// Never stops a run.
  early_stop() = default;
  /// `patience` is the number of tests in a row without a lower loss that ends the run; 0: any number may
  /// pass. `before` are the tests of earlier processes of the run, and `steps_before` the steps of these that
  /// the tests to come leave out.
  early_stop(std::vector<stop_condition> conditions, std::uint64_t patience, const judged_tests& before = {},
             counted_tests counted = counted_tests::for_patience, std::uint64_t steps_before = 0);

  /// Whether it has to be told of lines and tests.
  bool active() const noexcept { return !conditions_.empty() || counts_tests(); }
  /// Whether it counts tests, so that a checkpoint has to keep how many.
  bool counts_tests() const noexcept { return patience_ > 0 || counted_ == counted_tests::always; }
  /// The tests so far, if it counts them.
  const judged_tests& tests() const noexcept { return tests_; }

  /// Why the run is to end, in one line, or nothing. Once it is to end, it is told no more.
  std::optional<std::string> judge(const metrics_line& x);
  std::optional<std::string> judge(const evaluation_made& x);

private:
  std::vector<stop_condition> conditions_;
  std::uint64_t patience_ = 0;
  judged_tests tests_;
  counted_tests counted_ = counted_tests::for_patience;
  std::uint64_t steps_before_ = 0;
  bool ended_ = false;
};

} // namespace mailgrad
