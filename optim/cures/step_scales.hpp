#pragma once

#include <mailgrad/optim/cures/cure.hpp>

#include <algorithm>
#include <cmath>
#include <span>

namespace mailgrad {

// Cures that shorten the step of a stale gradient and keep no state. Each is made from the numbers after its
// name.

class step_scale : public cure {
public:
  bool has_factor() const noexcept final { return true; }
  void keep(archive& a) override { a.version(1); }

protected:
  static double real(std::uint64_t n) noexcept { return static_cast<double>(n); }
};

/// SA-ASGD.
/// Source  Zhang, Gupta, Lian & Liu, IJCAI 2016, arXiv:1511.05950
class inverse_scale final : public step_scale {
public:
  static constexpr cure_form form{"inverse", "step times 1 / max(1, gap): SA-ASGD",
                                  "Zhang et al., IJCAI 2016"};
  inverse_scale(std::span<const double>, const cure_site&) {}
  std::string_view name() const noexcept override { return form.text; }
  double factor(std::uint64_t gap) const noexcept override { return 1 / std::max(1.0, real(gap)); }
};

/// Source  Jiang, Cui, Zhang & Yu, SIGMOD 2017
class dynsgd_scale final : public step_scale {
public:
  static constexpr cure_form form{"dynsgd", "step times 1 / (gap + 1)", "Jiang et al., SIGMOD 2017"};
  dynsgd_scale(std::span<const double>, const cure_site&) {}
  std::string_view name() const noexcept override { return form.text; }
  double factor(std::uint64_t gap) const noexcept override { return 1 / (real(gap) + 1); }
};

/// FedAsync's weight of staleness, s(gap) = (gap + 1)^-a.
/// Source  Xie, Koyejo & Gupta, 2019, arXiv:1903.03934. Differs: it weighs the step, where the paper mixes
///         the worker's weights into the server's, which undoes a part of the other workers' updates.
class polynomial_scale final : public step_scale {
public:
  static constexpr cure_form form{"polynomial:A", "step times (gap + 1)^-A, by default A = 0.5: FedAsync",
                                  "Xie et al., 2019"};
  polynomial_scale(std::span<const double> n, const cure_site&) : a_(n.empty() ? 0.5 : n[0]) {}
  std::string_view name() const noexcept override { return "polynomial"; }
  double factor(std::uint64_t gap) const noexcept override { return std::pow(real(gap) + 1, -a_); }

private:
  double a_;
};

/// FedAsync's other weight of staleness.
/// Source  and difference as polynomial_scale.
class hinge_scale final : public step_scale {
public:
  static constexpr cure_form form{
      "hinge:A,B", "full step up to a gap of B, then times 1 / (A (gap - B) + 1), by default 10,4: FedAsync",
      "Xie et al., 2019"};
  hinge_scale(std::span<const double> n, const cure_site&)
      : a_(n.empty() ? 10 : n[0]), b_(n.size() < 2 ? 4 : n[1]) {}
  std::string_view name() const noexcept override { return "hinge"; }
  double factor(std::uint64_t gap) const noexcept override {
    return real(gap) <= b_ ? 1 : 1 / (a_ * (real(gap) - b_) + 1);
  }

private:
  double a_;
  double b_;
};

/// Source  Mishchenko, Bach, Even & Woodworth, NeurIPS 2022, arXiv:2206.07638
class mishchenko_scale final : public step_scale {
public:
  static constexpr cure_form form{"mishchenko", "step times M / max(M, gap)",
                                  "Mishchenko et al., NeurIPS 2022"};
  mishchenko_scale(std::span<const double>, const cure_site& site) : workers_(site.workers) {}
  std::string_view name() const noexcept override { return form.text; }
  double factor(std::uint64_t gap) const noexcept override {
    return workers_ / std::max(workers_, real(gap));
  }

private:
  double workers_;
};

/// 1 up to a gap of M, then 1 / gap: min(eta, 1 / (4 L gap)) at the paper's largest eta, 1 / (4 L).
/// Source  Koloskova, Stich & Jaggi, NeurIPS 2022, arXiv:2206.08307
class koloskova_scale final : public step_scale {
public:
  static constexpr cure_form form{"koloskova", "full step up to a gap of M, then times 1 / gap",
                                  "Koloskova et al., NeurIPS 2022"};
  koloskova_scale(std::span<const double>, const cure_site& site) : workers_(site.workers) {}
  std::string_view name() const noexcept override { return form.text; }
  double factor(std::uint64_t gap) const noexcept override { return gap <= workers_ ? 1 : 1 / real(gap); }

private:
  std::uint64_t workers_;
};

/// FedBuff's weight; its buffer of K is the policy k-batch-async:K, its clients' work --local-steps.
/// Source  Nguyen et al., "Federated learning with buffered asynchronous aggregation", AISTATS 2022,
///         arXiv:2106.06639
class fedbuff_scale final : public step_scale {
public:
  static constexpr cure_form form{"fedbuff",
                                  "step times 1 / sqrt(1 + gap), for local steps and k-batch-async:K",
                                  "Nguyen et al., AISTATS 2022"};
  fedbuff_scale(std::span<const double>, const cure_site&) {}
  std::string_view name() const noexcept override { return form.text; }
  double factor(std::uint64_t gap) const noexcept override { return 1 / std::sqrt(1 + real(gap)); }
};

/// Rescaled ASGD: where workers have unlike data, equal steps favour those that are fast. A step that is
/// proportional to the time of its worker favours nobody.
/// Source  arXiv:2605.13434, 2026. Differs: the time is counted in versions, gap + 1. Its mean is the
///         worker's mean time by that between two updates, so the mean factor over all gradients is 1.
class rescaled_scale final : public step_scale {
public:
  static constexpr cure_form form{
      "rescaled", "step times (gap + 1) / M, so that fast workers with unlike data count no more",
      "arXiv:2605.13434, 2026"};
  rescaled_scale(std::span<const double>, const cure_site& site) : workers_(site.workers) {}
  std::string_view name() const noexcept override { return form.text; }
  double factor(std::uint64_t gap) const noexcept override { return (real(gap) + 1) / workers_; }

private:
  double workers_;
};

} // namespace mailgrad
