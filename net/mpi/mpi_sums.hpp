#pragma once

#include <mailgrad/net/all_reduce.hpp>
#include <mailgrad/net/mpi/mpi_calls.hpp>

#include <algorithm>
#include <stdexcept>

namespace mailgrad::net {

/// The rounds in which every rank but rank 0 adds up its numbers with those of the others; rank r is worker
/// r - 1.
///
/// No rank can leave a sum of MPI, since it ends on no rank before it has begun on all. So a rank that has
/// left goes on taking part with zeros. A second sum says who gave numbers, and the round in which nobody
/// did is the last one. Ranks may thus leave at any time and in any order, and none waits for ever.
///
///     resting --add()--> giving --sum--> resting --leave()--> passing --nobody gave--> over
///                                                              ^   \--somebody gave--+
///                                                              +---------------------+
/// Errors  those of mpi_calls; std::runtime_error for numbers that come while a round is under way.
/// Threads that of the network.
class mpi_sums {
public:
  /// What a rank gives to a round.
  struct part {
    std::span<float> values;
    std::shared_ptr<const void> keeps{};
    all_reduce::on_sum done{}; ///< null: it only passes
  };

  mpi_sums(mpi_calls& mpi, mpi_calls::place here, std::size_t floats)
      : mpi_(&mpi), me_(static_cast<std::size_t>(here.rank - 1)),
        attendance_(static_cast<std::size_t>(here.size - 1)), floats_(floats) {}
  mpi_sums(const mpi_sums&) = delete;
  mpi_sums& operator=(const mpi_sums&) = delete;

  void add(part p) {
    if (giving_ || left_)
      throw std::runtime_error("mpi: expected one sum of a rank at a time, and none after it has left");
    begin(std::move(p));
  }
  /// No further numbers come from this rank.
  void leave() {
    if (!std::exchange(left_, true) && !giving_) pass();
  }
  /// Whether a round has ended.
  bool turn() {
    if (!giving_) return false;
    for (sum& s : sums_)
      if (!s.done) s.done = mpi_->is_done(s.request);
    if (!std::ranges::all_of(sums_, &sum::done)) return false;
    end_round();
    return true;
  }
  bool is_under_way() const noexcept { return giving_.has_value(); }
  /// Whether no rank takes part any more.
  bool is_over() const noexcept { return over_; }

private:
  struct sum {
    mpi_calls::request request = 0;
    bool done = true;
  };

  /// Every rank begins the two sums in this order, by which MPI tells them apart.
  void begin(part p) {
    giving_ = std::move(p);
    std::ranges::fill(attendance_, 0.0F);
    if (giving_->done) attendance_[me_] = 1;
    sums_[0] = {mpi_->begin_sum(attendance_), false};
    sums_[1] = {mpi_->begin_sum(giving_->values), false};
  }
  /// The zeros of the last round are a sum now, in which others may have had numbers.
  void pass() {
    zeros_.assign(floats_, 0);
    begin({zeros_, {}, {}});
  }
  void end_round() {
    part given = *std::exchange(giving_, std::nullopt);
    given.keeps.reset(); // whoever is told may want to be alone with the memory
    const all_reduce::givers who(attendance_.begin(), attendance_.end());
    over_ = std::ranges::count(who, true) == 0;
    if (left_ && !over_) pass();
    if (given.done) given.done(who);
  }

  mpi_calls* mpi_;
  std::size_t me_;                ///< among the workers
  std::vector<float> attendance_; ///< by worker: 1 if it gives numbers
  std::vector<float> zeros_;      ///< of a rank that has left
  std::size_t floats_;
  std::optional<part> giving_; ///< to the round under way
  std::array<sum, 2> sums_;    ///< of the attendance and of the numbers
  bool left_ = false, over_ = false;
};

} // namespace mailgrad::net
