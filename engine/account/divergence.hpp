#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace mailgrad {

class dataset;

/// The loss of a model that knows nothing of its task: ln(classes), or where numbers are predicted the mean
/// of their squares, since such a model answers 0.
double chance_loss(const dataset& samples);

/// "2.3026", and "1.2e+15" for a loss whose digits say nothing.
std::string loss_in_words(double loss);

/// Says when the loss of a run has grown to nonsense, although it is a finite number still.
///
/// A loss is nonsense above 1000 times the largest of three: that of the first step of the run,
/// chance_loss(), and 1. The run has diverged if workers tell of nothing else for a while: in 3 notices of
/// each worker, one after the other, and in 4 steps of each, at least 32 in all. At the end of a run the loss
/// of the test is compared with the same limit, since no loss of a step may have shown what the last updates
/// did.
///
/// It is silent about healthy runs. A regression may begin at any loss, which is then its measure. A spike
/// lasts for a few updates and stands in one notice of each worker, or in two where it falls between them,
/// and those of language models are far below ten times the first loss. A cross-entropy of 1000 times that
/// of chance gives the right class a probability of exp(-2300) where there are ten, on average. Runs whose
/// loss swings about and is bounded, such as 200 times that of chance, are not ended: some of them learn.
///
/// Source  Wortsman et al., ICLR 2024, arXiv:2309.14322, count a run that diverged by its loss at
///         initialisation, and the range test of Smith, WACV 2017, as fastai has it, ends at 4 times the best
///         smoothed loss. Differs: both only compare rates, while this rule ends a run unasked, so its limit
///         is 1000 times as high. Spikes: Chowdhery et al., JMLR 2023, section 5.1.
/// Units   losses are means over samples.
/// Threads one caller at a time.
class divergence_watch {
public:
  static constexpr double factor = 1000;
  static constexpr std::uint64_t notices_each = 3;
  static constexpr std::uint64_t steps_each = 4;
  static constexpr std::uint64_t least_steps = 32;

  /// Of a run whose loss may be what it likes.
  divergence_watch() = default;
  divergence_watch(double chance, std::uint32_t workers);

  /// A worker tells of so many steps, with the sum of the losses of their samples. The first notice of a run
  /// must be of its first step alone. Returns once why the run has diverged, in one line.
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

/// Why a run has diverged that ended with this loss, in one line, or nothing if the loss makes sense: it is a
/// finite number of at most `limit`. `whose` is "the test".
std::string ended_in_nonsense(const std::string& whose, double loss, double limit);

} // namespace mailgrad
