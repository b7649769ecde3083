#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/optim/identity.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mailgrad {

/// How far the weights of a shard had moved when a sampled gradient was applied to them.
struct gap_sample {
  incarnation life; ///< of the worker, as the next
  step_number step;
  std::uint64_t lag = 0; ///< versions
  double gap = 0;        ///< weights, as a root mean square

  void keep(archive& a) {
    a.field("life", life);
    a.field("step", step);
    a.field("lag", lag);
    a.field("gap", gap);
  }
};

/// Where a sampled gradient pointed, beside a fresh one of the same batch.
struct cosine_sample {
  incarnation life;
  step_number step;
  double cosine = 0;

  void keep(archive& a) {
    a.field("life", life);
    a.field("step", step);
    a.field("cosine", cosine);
  }
};

/// A draw of the sampled gradients of one worker, of which there may be very many: those whose numbers have
/// the least of a mixed value. So a shard and the worker, each of which knows half of a pair, keep the same
/// ones without a word, and a replay keeps those of its run.
///
/// Threads one caller at a time.
template <class Sample>
class kept_samples {
public:
  static constexpr std::size_t most = 256;

  void add(const Sample& x) {
    all_.push_back(x);
    std::ranges::push_heap(all_, {}, value_of);
    if (all_.size() <= most) return;
    std::ranges::pop_heap(all_, {}, value_of);
    all_.pop_back();
  }

  /// In no particular order.
  std::span<const Sample> all() const noexcept { return all_; }

  void keep(archive& a) { a.field("all", all_); }

private:
  /// The last step of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
  static std::uint64_t value_of(const Sample& x) noexcept {
    std::uint64_t z = x.step.value + (std::uint64_t{x.life.value} << 40) + 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  std::vector<Sample> all_; ///< a heap, the greatest value first
};

} // namespace mailgrad
