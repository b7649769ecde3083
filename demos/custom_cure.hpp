#pragma once

#include <mailgrad/optim/cures/custom_cure.hpp>

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

/// A stale gradient counts less the older it is, by a factor of its own for each version: keep^gap.
class fading final : public mailgrad::cure {
public:
  static constexpr std::string_view cure_name = "fading";
  static constexpr std::size_t numbers = 1;

  /// "fading:0.9" keeps nine tenths for each version; 0.8 unless given.
  fading(std::span<const double> n, const mailgrad::cure_site&) : keep_(n.empty() ? 0.8 : n[0]) {}

  std::string_view name() const noexcept override { return cure_name; }
  bool has_factor() const noexcept override { return true; }
  double factor(std::uint64_t gap) const noexcept override {
    return std::pow(keep_, static_cast<double>(gap));
  }
  void keep(mailgrad::archive& a) override { a.version(1); } // for checkpoints; it has no state

private:
  double keep_;
};
