#pragma once

#include <mailgrad/files/archive.hpp>

namespace mailgrad {

/// How often each version gap occurred: exact integer buckets, no binning.
class staleness_histogram {
public:
  /// Allocates only for a gap larger than any before, or more gaps that are much larger than the number of
  /// gradients.
  void count(std::uint64_t gap, std::uint64_t times = 1);
  void merge(const staleness_histogram& other);
  void clear() noexcept; ///< sets all counts to 0 and keeps the memory

  std::uint64_t total() const noexcept { return total_; }
  bool empty() const noexcept { return total_ == 0; }
  /// 0 if empty.
  /// Asked for at each progress notice, so it walks over no buckets.
  double mean() const noexcept { return total_ == 0 ? 0 : sum_ / static_cast<double>(total_); }
  std::uint64_t max() const noexcept;
  /// The smallest gap that at least `share` of all gradients do not exceed; `share` in (0, 1].
  std::uint64_t quantile(double share) const;
  /// All pairs (gap, count) with a count above 0, by rising gap.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> buckets() const;

  void keep(archive& a);

private:
  /// Gaps below the first number always have a slot in `dense_`, and those from the second on never. Others
  /// have one if so many gradients were counted that the slots take no more than 64 bytes for each: thousands
  /// of workers have such a histogram, and gaps as large.
  static constexpr std::uint64_t always_dense = 64, dense_gaps = 65536;
  bool deserves_slot(std::uint64_t gap) const noexcept {
    return gap < always_dense || (gap < dense_gaps && gap / 8 < total_);
  }
  using bucket = std::pair<std::uint64_t, std::uint64_t>; ///< a gap, and how often it was counted

  void make_slot(std::uint64_t gap);
  static void put_in_order(std::vector<bucket>& all);
  void put_rare_in_order();

  std::vector<std::uint64_t> dense_;
  /// Of gaps without a slot. Those behind the first `in_order_` stand as they were counted, since to find the
  /// place of each at once would touch memory all over. They are put in order when they are many.
  std::vector<bucket> rare_;
  std::size_t in_order_ = 0; ///< by gap, each once
  std::uint64_t total_ = 0;
  double sum_ = 0; ///< of all gaps; exact up to 2^53
};

} // namespace mailgrad
