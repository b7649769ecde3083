#pragma once

#include <mailgrad/optim/policies/attendance.hpp>

namespace mailgrad {

/// One update from the mean of the first K gradients of K different workers, however stale; those K wait for
/// it, the others compute on. With K = 1 it is async, with K = N sync.
///
/// Where fewer than K workers are left, all of them make an update. Mean staleness of N busy workers (N - K)
/// / K.
/// Source  Dutta, Joshi, Ghosh, Dube & Nagpurkar, "Slow and Stale Gradients Can Win the Race", AISTATS 2018,
///         arXiv:1803.01113 (K-async SGD).
class k_async_policy final : public attended_policy {
public:
  static constexpr std::string_view policy_name = "k-async";
  k_async_policy(std::size_t k, world_size workers) : k_(k), takes_all_(k >= workers.value) {}
  std::string_view name() const noexcept override { return policy_name; }
  bool shards_agree() const noexcept override { return true; }
  bool always_fresh() const noexcept override { return takes_all_; }
  bool batch_complete() const override {
    return workers_.arrived() > 0 && workers_.arrived() >= std::min(k_, workers_.expected());
  }

private:
  std::size_t k_;
  bool takes_all_; ///< K = N: nobody computes while an update is made
};

} // namespace mailgrad
