#include <mailgrad/net/mpi/mpi_sums.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace mailgrad::net {

mpi_sums::mpi_sums(mpi_calls& mpi, mpi_calls::place here, std::size_t floats)
    : mpi_(&mpi), me_(static_cast<std::size_t>(here.rank - 1)),
      attendance_(static_cast<std::size_t>(here.size - 1)), floats_(floats) {}

void mpi_sums::add(part p) {
  if (giving_ || left_)
    throw std::runtime_error("mpi: expected one sum of a rank at a time, and none after it has left");
  begin(std::move(p));
}

void mpi_sums::leave() {
  if (std::exchange(left_, true)) return;
  if (!giving_) pass();
}

/// The zeros of the last round are a sum now, in which others may have had numbers.
void mpi_sums::pass() {
  zeros_.assign(floats_, 0);
  begin({zeros_, {}, {}});
}

/// Every rank begins the two sums in this order, by which MPI tells them apart.
void mpi_sums::begin(part p) {
  giving_ = std::move(p);
  std::ranges::fill(attendance_, 0.0F);
  if (giving_->done) attendance_[me_] = 1;
  sums_[0] = {mpi_->begin_sum(attendance_), false};
  sums_[1] = {mpi_->begin_sum(giving_->values), false};
}

bool mpi_sums::turn() {
  if (!giving_) return false;
  for (sum& s : sums_)
    if (!s.done) s.done = mpi_->is_done(s.request);
  if (!std::ranges::all_of(sums_, &sum::done)) return false;
  end_round();
  return true;
}

void mpi_sums::end_round() {
  part given = *std::exchange(giving_, std::nullopt);
  given.keeps.reset(); // whoever is told may want to be alone with the memory
  const all_reduce::givers who(attendance_.begin(), attendance_.end());
  over_ = std::ranges::count(who, true) == 0;
  if (left_ && !over_) pass();
  if (given.done) given.done(who);
}

} // namespace mailgrad::net
