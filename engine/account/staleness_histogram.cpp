#include <mailgrad/engine/account/staleness_histogram.hpp>

#include <algorithm>
#include <cmath>

namespace mailgrad {

void staleness_histogram::count(std::uint64_t gap, std::uint64_t times) {
  if (times == 0) return;
  total_ += times;
  sum_ += static_cast<double>(gap) * static_cast<double>(times);
  if (gap >= dense_.size() && !deserves_slot(gap)) {
    constexpr std::size_t latest = 16;
    rare_.emplace_back(gap, times);
    if (rare_.size() >= 2 * in_order_ + latest) put_rare_in_order();
    return;
  }
  if (gap >= dense_.size()) make_slot(gap);
  dense_[gap] += times;
}

/// Rare gaps below it get theirs, too.
void staleness_histogram::make_slot(std::uint64_t gap) {
  dense_.resize(gap + 1);
  put_rare_in_order();
  const auto others = std::ranges::upper_bound(rare_, gap, {}, &bucket::first);
  for (auto one = rare_.begin(); one != others; ++one) dense_[one->first] = one->second;
  rare_.erase(rare_.begin(), others);
  in_order_ = rare_.size();
}

/// By gap, each once.
void staleness_histogram::put_in_order(std::vector<bucket>& all) {
  std::ranges::sort(all, {}, &bucket::first);
  std::size_t kept = 0;
  for (const bucket& one : all) {
    if (kept > 0 && all[kept - 1].first == one.first)
      all[kept - 1].second += one.second;
    else
      all[kept++] = one;
  }
  all.resize(kept);
}

void staleness_histogram::put_rare_in_order() {
  if (in_order_ < rare_.size()) put_in_order(rare_);
  in_order_ = rare_.size();
}

void staleness_histogram::merge(const staleness_histogram& other) {
  for (const auto& [gap, times] : other.buckets()) count(gap, times);
}

void staleness_histogram::clear() noexcept {
  std::ranges::fill(dense_, 0);
  rare_.clear();
  in_order_ = 0;
  total_ = 0;
  sum_ = 0;
}

std::uint64_t staleness_histogram::max() const noexcept {
  if (!rare_.empty()) return std::ranges::max(rare_).first;
  for (std::size_t gap = dense_.size(); gap-- > 0;)
    if (dense_[gap] > 0) return gap;
  return 0;
}

std::uint64_t staleness_histogram::quantile(double share) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(total_)));
  std::uint64_t seen = 0;
  for (const auto& [gap, times] : buckets())
    if (seen += times; seen >= wanted) return gap;
  return 0;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> staleness_histogram::buckets() const {
  std::vector<bucket> found;
  for (std::size_t gap = 0; gap < dense_.size(); ++gap)
    if (dense_[gap] > 0) found.emplace_back(gap, dense_[gap]);
  std::vector<bucket> rare = rare_;
  if (in_order_ < rare.size()) put_in_order(rare);
  found.insert(found.end(), rare.begin(), rare.end());
  return found;
}

void staleness_histogram::keep(archive& a) {
  auto all = buckets();
  a.field("buckets", all);
  if (!a.reads()) return;
  *this = {};
  for (const auto& [gap, times] : all) count(gap, times);
}

} // namespace mailgrad
