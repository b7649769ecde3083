#pragma once

#include <mailgrad/files/archive.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mailgrad {

/// The losses of the last steps of a worker.
class loss_tail {
public:
  static constexpr std::size_t steps = 32;

  /// Adds the mean loss of one step; that of the oldest step goes when there are more than `steps`.
  void add(float loss, std::uint64_t samples) noexcept {
    entries_[next_] = {loss, samples};
    next_ = (next_ + 1) % steps;
    count_ = std::min(count_ + 1, steps);
  }

  std::uint64_t samples() const noexcept {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < count_; ++i) all += entries_[i].samples;
    return all;
  }
  /// The sum of the losses of all these samples.
  double sum() const noexcept {
    double all = 0;
    for (std::size_t i = 0; i < count_; ++i)
      all += static_cast<double>(entries_[i].loss) * static_cast<double>(entries_[i].samples);
    return all;
  }

  /// Writes or reads the steps, the oldest first.
  void keep(archive& a) {
    std::vector<std::pair<float, std::uint64_t>> all;
    for (std::size_t i = 0; i < count_; ++i) {
      const entry& e = entries_[(next_ + steps - count_ + i) % steps];
      all.emplace_back(e.loss, e.samples);
    }
    a.field("steps", all);
    if (!a.reads()) return;
    *this = {};
    for (const auto& [loss, samples] : all) add(loss, samples);
  }

private:
  struct entry {
    float loss = 0;
    std::uint64_t samples = 0;
  };
  std::array<entry, steps> entries_{};
  std::size_t next_ = 0;
  std::size_t count_ = 0;
};

} // namespace mailgrad
