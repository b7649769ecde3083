#pragma once

#include <mailgrad/files/archive.hpp>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace mailgrad {

/// How often each version gap occurred: exact integer buckets, no binning.
class staleness_histogram {
public:
  /// Allocates only when a gap is larger than any before.
  void count(std::uint64_t gap, std::uint64_t times = 1);
  void merge(const staleness_histogram& other);
  /// Sets all counts to 0 and keeps the memory.
  void clear() noexcept;

  std::uint64_t total() const noexcept { return total_; }
  bool empty() const noexcept { return total_ == 0; }
  /// 0 if empty.
  double mean() const noexcept;
  std::uint64_t max() const noexcept;
  /// The smallest gap that at least `share` of all gradients do not exceed; `share` in (0, 1].
  std::uint64_t quantile(double share) const noexcept;
  /// All pairs (gap, count) with a count above 0, by rising gap.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> buckets() const;

  void keep(archive& a);

private:
  /// Gaps below this have a slot in `dense_`; larger ones are rare and go to the map.
  static constexpr std::uint64_t dense_gaps = 4096;

  std::vector<std::uint64_t> dense_;
  std::map<std::uint64_t, std::uint64_t> rare_;
  std::uint64_t total_ = 0;
  double sum_ = 0; ///< of all gaps; exact up to 2^53
};

} // namespace mailgrad
