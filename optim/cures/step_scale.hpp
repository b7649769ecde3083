#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace mailgrad {

/// A cure of staleness that shortens the step of a stale gradient and keeps no state: the learning rate of its update
/// counts `factor(gap)` times. A gradient in a batch counts so much itself.
///
/// Threads const access from many threads.
class step_scale {
public:
  virtual ~step_scale() = default;

  virtual std::string_view name() const noexcept = 0;
  /// In (0, 1], 1 for a fresh gradient; `gap` is the version gap when it is applied.
  virtual double factor(std::uint64_t gap) const noexcept = 0;
};

/// How each cure is written, with what it does in a few words and where it comes from.
struct cure_form {
  std::string_view text;
  std::string_view what;
  std::string_view source;
};
std::vector<cure_form> cure_forms();

/// "none" (null), or one of:
///   inverse           1 / max(1, gap): SA-ASGD. Zhang, Gupta, Lian & Liu, IJCAI 2016, arXiv:1511.05950
///   dynsgd            1 / (gap + 1). Jiang, Cui, Zhang & Yu, SIGMOD 2017
///   polynomial:A      (gap + 1)^-A, A = 0.5 unless given: FedAsync. Xie, Koyejo & Gupta, 2019, arXiv:1903.03934
///   hinge:A,B         1 up to a gap of B, then 1 / (A (gap - B) + 1), 10 and 4 unless given: FedAsync
///   mishchenko        N / max(N, gap) of N workers. Mishchenko, Bach, Even & Woodworth, NeurIPS 2022,
///                     arXiv:2206.07638
///   koloskova         1 up to a gap of N, then 1 / gap: min(eta, 1 / (4 L gap)) at the paper's largest eta, 1 / (4 L).
///                     Koloskova, Stich & Jaggi, NeurIPS 2022, arXiv:2206.08307
///
/// Errors  std::invalid_argument in one line that says what would be right.
std::unique_ptr<step_scale> make_step_scale(std::string_view text, std::uint32_t workers);

/// Errors  std::invalid_argument: a cure that make_step_scale() refuses, or one that can do nothing under any of
///         `policies`, since their gradients are always fresh, or no shard judges them (hogwild).
void require_cure(std::string_view text, const std::vector<std::string_view>& policies,
                  std::uint32_t workers);

} // namespace mailgrad
