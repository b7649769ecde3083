#include <mailgrad/engine/account/staleness_histogram.hpp>

#include <algorithm>
#include <cmath>

namespace mailgrad {

void staleness_histogram::count(std::uint64_t gap, std::uint64_t times) {
  if (times == 0) return;
  total_ += times;
  sum_ += static_cast<double>(gap) * static_cast<double>(times);
  if (gap >= dense_.size() && !deserves_slot(gap)) {
    rare_[gap] += times;
    return;
  }
  if (gap >= dense_.size()) make_slot(gap);
  dense_[gap] += times;
}

/// Rare gaps below it get theirs, too.
void staleness_histogram::make_slot(std::uint64_t gap) {
  dense_.resize(gap + 1);
  while (!rare_.empty() && rare_.begin()->first <= gap) {
    dense_[rare_.begin()->first] = rare_.begin()->second;
    rare_.erase(rare_.begin());
  }
}

void staleness_histogram::merge(const staleness_histogram& other) {
  for (const auto& [gap, times] : other.buckets()) count(gap, times);
}

void staleness_histogram::clear() noexcept {
  std::ranges::fill(dense_, 0);
  rare_.clear();
  total_ = 0;
  sum_ = 0;
}

/// Asked for at each progress notice, so it walks over no buckets.
double staleness_histogram::mean() const noexcept {
  return total_ == 0 ? 0 : sum_ / static_cast<double>(total_);
}

std::uint64_t staleness_histogram::max() const noexcept {
  if (!rare_.empty()) return rare_.rbegin()->first;
  for (std::size_t gap = dense_.size(); gap-- > 0;)
    if (dense_[gap] > 0) return gap;
  return 0;
}

std::uint64_t staleness_histogram::quantile(double share) const noexcept {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(total_)));
  std::uint64_t seen = 0;
  for (std::size_t gap = 0; gap < dense_.size(); ++gap)
    if (seen += dense_[gap]; seen >= wanted && seen > 0) return gap;
  for (const auto& [gap, times] : rare_)
    if (seen += times; seen >= wanted) return gap;
  return 0;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> staleness_histogram::buckets() const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
  for (std::size_t gap = 0; gap < dense_.size(); ++gap)
    if (dense_[gap] > 0) found.emplace_back(gap, dense_[gap]);
  found.insert(found.end(), rare_.begin(), rare_.end());
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
