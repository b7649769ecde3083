#pragma once

#include <mailgrad/optim/cures/cure.hpp>

namespace mailgrad {

/// What a stale gradient's step is multiplied by, from its gap, the numbers A and B after the name of the
/// cure, and the number M of workers.
struct scale_law {
  cure_form form;
  double (*factor)(double gap, double a, double b, double workers);
  double a = 0, b = 0; ///< unless the user says others
};

/// SA-ASGD.
/// Source  Zhang, Gupta, Lian & Liu, IJCAI 2016, arXiv:1511.05950
inline constexpr scale_law inverse_scale{
    {"inverse", "step times 1 / max(1, gap): SA-ASGD", "Zhang et al., IJCAI 2016"},
    [](double gap, double, double, double) { return 1 / std::max(1.0, gap); }};

/// Source  Jiang, Cui, Zhang & Yu, SIGMOD 2017
inline constexpr scale_law dynsgd_scale{{"dynsgd", "step times 1 / (gap + 1)", "Jiang et al., SIGMOD 2017"},
                                        [](double gap, double, double, double) { return 1 / (gap + 1); }};

/// FedAsync's weight of staleness, s(gap) = (gap + 1)^-a.
/// Source  Xie, Koyejo & Gupta, 2019, arXiv:1903.03934. Differs: it weighs the step, where the paper mixes
///         the worker's weights into the server's, which undoes a part of the other workers' updates.
inline constexpr scale_law polynomial_scale{
    {"polynomial:A", "step times (gap + 1)^-A, by default A = 0.5: FedAsync", "Xie et al., 2019"},
    [](double gap, double a, double, double) { return std::pow(gap + 1, -a); },
    0.5};

/// FedAsync's other weight of staleness.
/// Source  and difference as polynomial_scale.
inline constexpr scale_law hinge_scale{
    {"hinge:A,B", "full step up to a gap of B, then times 1 / (A (gap - B) + 1), by default 10,4: FedAsync",
     "Xie et al., 2019"},
    [](double gap, double a, double b, double) { return gap <= b ? 1 : 1 / (a * (gap - b) + 1); },
    10,
    4};

/// Source  Mishchenko, Bach, Even & Woodworth, NeurIPS 2022, arXiv:2206.07638
inline constexpr scale_law mishchenko_scale{
    {"mishchenko", "step times M / max(M, gap)", "Mishchenko et al., NeurIPS 2022"},
    [](double gap, double, double, double workers) { return workers / std::max(workers, gap); }};

/// 1 up to a gap of M, then 1 / gap: min(eta, 1 / (4 L gap)) at the paper's largest eta, 1 / (4 L).
/// Source  Koloskova, Stich & Jaggi, NeurIPS 2022, arXiv:2206.08307
inline constexpr scale_law koloskova_scale{
    {"koloskova", "full step up to a gap of M, then times 1 / gap", "Koloskova et al., NeurIPS 2022"},
    [](double gap, double, double, double workers) { return gap <= workers ? 1 : 1 / gap; }};

/// FedBuff's weight; its buffer of K is the policy k-batch-async:K, its clients' work --local-steps.
/// Source  Nguyen et al., "Federated learning with buffered asynchronous aggregation", AISTATS 2022,
///         arXiv:2106.06639
inline constexpr scale_law fedbuff_scale{
    {"fedbuff", "step times 1 / sqrt(1 + gap), for local steps and k-batch-async:K",
     "Nguyen et al., AISTATS 2022"},
    [](double gap, double, double, double) { return 1 / std::sqrt(1 + gap); }};

/// Rescaled ASGD: where workers have unlike data, equal steps favour those that are fast. A step that is
/// proportional to the time of its worker favours nobody.
/// Source  arXiv:2605.13434, 2026. Differs: the time is counted in versions, gap + 1. Its mean is the
///         worker's mean time by that between two updates, so the mean factor over all gradients is 1.
inline constexpr scale_law rescaled_scale{
    {"rescaled", "step times (gap + 1) / M, so that fast workers with unlike data count no more",
     "arXiv:2605.13434, 2026"},
    [](double gap, double, double, double workers) { return (gap + 1) / workers; }};

/// A cure that shortens the step of a stale gradient and keeps no state.
template <const scale_law& Law>
class step_scale : public cure {
public:
  static constexpr cure_form form = Law.form;

  step_scale(std::span<const double> n, const cure_site& site)
      : a_(n.empty() ? Law.a : n[0]), b_(n.size() < 2 ? Law.b : n[1]), workers_(site.workers) {}
  bool has_factor() const noexcept override { return true; }
  double factor(std::uint64_t gap) const noexcept override {
    return Law.factor(static_cast<double>(gap), a_, b_, workers_);
  }
  void keep(archive& a) override { a.version(1); }

private:
  double a_, b_;
  double workers_;
};

} // namespace mailgrad
