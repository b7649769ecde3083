#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace mailgrad {

/// The learning rate does not change.
struct constant_schedule {};

/// The learning rate is multiplied by `factor` after every `every` steps: factor^floor(t / every).
struct step_schedule {
  std::uint64_t every = 1000; ///< steps; at least 1
  double factor = 0.1;
};

/// Half a cosine from the base learning rate at t = 0 down to `final` times that at t = total, then constant.
/// Source  Loshchilov & Hutter, "SGDR", ICLR 2017, eq. 5, arXiv:1608.03983, without restarts:
///         final + (1 - final) * (1 + cos(pi * t / total)) / 2.
struct cosine_schedule {
  std::uint64_t total = 0; ///< steps, warm-up included; at least 1 more than the warm-up
  double final = 0;        ///< fraction of the base learning rate
};

/// How the learning rate changes: a warm-up, then a shape whose t counts from 0 at the end of the warm-up.
/// Source  warm-up: Goyal et al., "Accurate, large minibatch SGD", 2017, section 2.2, arXiv:1706.02677. It is
///         linear: step k of W takes k / W of the base learning rate.
/// Units   a step is an update of the weights, by any worker and under every policy; the batch of a barrier
///         is one step.
struct learning_rate_schedule {
  std::variant<constant_schedule, step_schedule, cosine_schedule> shape{};
  std::uint64_t warmup = 0; ///< steps
};

/// Errors  std::invalid_argument, in one line, for a number outside the range that its comment gives.
void require_valid(const learning_rate_schedule& schedule);

/// The learning rate of step `step`, which counts from 1, by a valid schedule.
double learning_rate(const learning_rate_schedule& schedule, double base, std::uint64_t step);

/// The last step with a learning rate above 0, of a valid schedule that then has none; nothing for others. A
/// rate that gets smaller for ever is above 0.
std::optional<std::uint64_t> last_step_above_zero(const learning_rate_schedule& schedule);

/// Reads "constant", "step:every=500,factor=0.1" or "cosine:total=1000,final=0.01"; each takes "warmup=100".
/// Errors  std::invalid_argument, in one line with the nearest right name or the range of a value.
learning_rate_schedule parse_schedule(std::string_view text);

/// The text that parse_schedule() reads.
std::string to_string(const learning_rate_schedule& schedule);

} // namespace mailgrad
