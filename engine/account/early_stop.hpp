#pragma once

#include <mailgrad/engine/account/training_report.hpp>

namespace mailgrad {

class dataset;

/// The loss of a model that knows nothing of its task: ln(classes), or of numbers the mean of their squares.
double chance_loss(const dataset& samples);

/// "2.3026", and "1.2e+15" for a loss whose digits say nothing.
std::string format_loss(double loss);

/// Says when the loss of a run has grown to nonsense, although it is a finite number still.
///
/// A loss is nonsense above 1000 times the largest of three: that of the first step of the run,
/// chance_loss(), and 1. The run has diverged if workers tell of nothing else in 3 notices of each, one after
/// the other, and in 4 steps of each, at least 32 in all. The loss of the test at its end has the same limit.
///
/// A regression may begin at any loss, which is then its measure. A spike stands in one notice of each
/// worker, or in two, and those of language models are far below ten times the first loss. A cross-entropy of
/// 1000 times that of chance gives the right class a probability of exp(-2300) where there are ten, on
/// average. A bounded loss that swings about, such as 200 times that of chance, ends no run: some learn.
/// Source  Wortsman et al., ICLR 2024, arXiv:2309.14322, count a run that diverged by its loss at
///         initialisation, and the range test of Smith, WACV 2017, as fastai has it, ends at 4 times the best
///         smoothed loss. Differs: both only compare rates, while this rule ends a run unasked, so its limit
///         is 1000 times as high. Spikes: Chowdhery et al., JMLR 2023, section 5.1.
/// Units   losses are means over samples.
class divergence_watch {
public:
  static constexpr double factor = 1000;
  static constexpr std::uint64_t notices_each = 3;
  static constexpr std::uint64_t steps_each = 4;
  static constexpr std::uint64_t least_steps = 32;
  divergence_watch() = default; ///< of a run whose loss may be what it likes
  divergence_watch(double chance, std::uint32_t workers);
  /// A worker tells of so many steps, with the sum of the losses of their samples. The first notice of a run
  /// must be of its first step alone. Returns once why the run has diverged.
  std::optional<std::string> take(std::uint64_t steps, std::uint64_t samples, double loss_sum);
  /// A loss above it is nonsense; infinity before the first step.
  double limit() const noexcept { return limit_; }

private:
  std::optional<double> chance_; ///< none: nothing is nonsense
  std::uint64_t workers_ = 1;
  double limit_ = std::numeric_limits<double>::infinity();
  std::uint64_t notices_ = 0; ///< one after the other above the limit
  std::uint64_t steps_ = 0;   ///< in these
  double least_ = 0;          ///< of their losses
  bool told_ = false;
};

/// Why a run that ended with this loss has diverged; empty if it is a finite number of at most `limit`.
std::string ended_in_nonsense(const std::string& whose, double loss, double limit);

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
/// name is that of a column of metrics. `loss`, `accuracy` and `rmse` stand for those of the tests during the
/// run; `loss` is that of training if there are none.
/// Errors  std::invalid_argument in one line: no condition; an unknown name, with the one that may have been
///         meant; a figure of tests that the run does not make; a bound that is no number.
std::vector<stop_condition> parse_stop_conditions(std::string_view text, judged_on samples);

/// Whether any of these names in such a text is a figure of tests, so that it asks for tests during the run.
/// Errors  std::invalid_argument, as parse_stop_conditions().
bool asks_for_tests(std::string_view text);

/// What the tests of a run have shown so far, from which an early_stop goes on after an interruption.
struct judged_tests {
  std::uint64_t steps = 0; ///< trained when the last of them began
  std::uint64_t worse = 0; ///< tests since the one with the lowest loss
  std::optional<double> lowest_loss{};
  /// Steps that the whole run had trained at that test, those of workers that do not go on included.
  std::uint64_t lowest_at = 0;

  void keep(archive& a);
  friend bool operator==(const judged_tests&, const judged_tests&) = default;
};

enum class counted_tests : std::uint8_t {
  for_patience, ///< those of a run that has patience
  always        ///< all, since the run keeps the weights of the best one
};

/// Decides when a run has been trained enough: a condition holds, or tests get no better.
class early_stop {
public:
  /// Never stops a run.
  early_stop() = default;
  /// `patience` is the number of tests in a row without a lower loss that ends the run; 0: none does.
  /// `before` are the tests of earlier processes, and `steps_before` their steps that later tests leave out.
  early_stop(std::vector<stop_condition> conditions, std::uint64_t patience, const judged_tests& before = {},
             counted_tests counted = counted_tests::for_patience, std::uint64_t steps_before = 0);
  /// Whether it has to be told of lines and tests.
  bool active() const noexcept { return !conditions_.empty() || counts_tests(); }
  /// Whether it counts tests, so that a checkpoint has to keep how many.
  bool counts_tests() const noexcept { return patience_ > 0 || counted_ == counted_tests::always; }
  const judged_tests& tests() const noexcept { return tests_; } ///< the tests so far, if it counts them
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
