#pragma once

#include <mailgrad/net/all_reduce.hpp>
#include <mailgrad/net/mpi/mpi_calls.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

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
///
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

  mpi_sums(mpi_calls& mpi, mpi_calls::place here, std::size_t floats);
  mpi_sums(const mpi_sums&) = delete;
  mpi_sums& operator=(const mpi_sums&) = delete;

  void add(part p);
  /// No further numbers come from this rank.
  void leave();
  /// Whether a round has ended.
  bool turn();
  bool is_under_way() const noexcept { return giving_.has_value(); }
  /// Whether no rank takes part any more.
  bool is_over() const noexcept { return over_; }

private:
  struct sum {
    mpi_calls::request request = 0;
    bool done = true;
  };

  void begin(part p);
  void pass();
  void end_round();

  mpi_calls* mpi_;
  std::size_t me_;                ///< among the workers
  std::vector<float> attendance_; ///< by worker: 1 if it gives numbers
  std::vector<float> zeros_;      ///< of a rank that has left
  std::size_t floats_;
  std::optional<part> giving_; ///< to the round under way
  std::array<sum, 2> sums_;    ///< of the attendance and of the numbers
  bool left_ = false;
  bool over_ = false;
};

} // namespace mailgrad::net
