#include "block.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

// Where the threads of a block wait for each other, and what is wrong with it.
namespace mailgrad::simulated_gpu {

namespace {

std::string format_place(const std::source_location& where) {
  return fmt::format("{}:{}", where.file_name(), where.line());
}

bool same(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() ||
          std::string_view(a.file_name()) == std::string_view(b.file_name()));
}

} // namespace

unsigned block::barrier(bool mine, std::source_location where) {
  order_point& order = barrier_[barriers_ % 2];
  if (!arrive_at_barrier(mine, where)) stop();
  order.left();
  go_on();
  order.passed();
  return decided_;
}

bool block::arrive_at_barrier(bool mine, const std::source_location& where) {
  const between_threads quiet;
  if (ended_ > 0)
    return complain(fmt::format("{} waits at the barrier {}, which {} has ended without", name_of(current_),
                                format_place(where), name_of(last_ended_)));
  if (at_barrier_ > 0 && !same(threads_[last_at_barrier_].where, where))
    return complain(fmt::format("{} waits at the barrier {}, while {} waits at {}", name_of(current_),
                                format_place(where), name_of(last_at_barrier_),
                                format_place(threads_[last_at_barrier_].where)));
  threads_[current_].now = phase::at_barrier;
  threads_[current_].where = where;
  last_at_barrier_ = current_;
  votes_ += mine ? 1U : 0U;
  if (++at_barrier_ < threads_.size()) return true;
  decided_ = std::exchange(votes_, 0);
  at_barrier_ = 0;
  ++barriers_;
  add_all();
  return true;
}

void block::meet(unsigned mask, std::uint64_t value, bool ordered, std::source_location where) {
  order_point& order = warps_[current_ / warp].order[threads_[current_].ordered % 2];
  if (ordered) ++threads_[current_].ordered;
  if (ordered) order.left();
  if (!arrive_in_warp(mask, value, where)) stop();
  go_on();
  if (ordered) order.passed();
}

bool block::arrive_in_warp(unsigned mask, std::uint64_t value, const std::source_location& where) {
  const between_threads quiet;
  warp_state& w = warps_[current_ / warp];
  const std::size_t first = current_ / warp * warp;
  mask &= w.existing;
  if ((mask >> lane() & 1U) == 0)
    return complain(fmt::format("{} is not in its own mask at {}", name_of(current_), format_place(where)));
  if ((mask & w.ended) != 0)
    return complain(fmt::format("{} waits at {} for lanes of its warp that have ended", name_of(current_),
                                format_place(where)));
  for (unsigned other = 0; other < warp; ++other) {
    if ((mask & w.arrived & 1U << other) == 0) continue;
    const thread& t = threads_[first + other];
    if (t.mask != mask || !same(t.where, where))
      return complain(fmt::format("{} waits at {} for the lanes {:#x}, while {} waits at {} for {:#x}",
                                  name_of(current_), format_place(where), mask, name_of(first + other),
                                  format_place(t.where), t.mask));
    break;
  }
  thread& own = threads_[current_];
  own.now = phase::in_warp;
  own.where = where;
  own.mask = mask;
  own.handed_in = value;
  w.arrived |= 1U << lane();
  if ((w.arrived & mask) == mask) release_warp(first, mask);
  return true;
}

/// Each lane reads later what the others handed in, so it is kept from what they hand in next.
void block::release_warp(std::size_t first, unsigned mask) {
  warp_state& w = warps_[first / warp];
  w.arrived &= ~mask;
  met_.clear();
  for (unsigned l = 0; l < warp; ++l) {
    if ((mask >> l & 1U) == 0) continue;
    met_.push_back({first + l});
    w.values[l] = threads_[first + l].handed_in;
  }
  ready_.add(met_);
}

std::uint64_t block::value_of(unsigned other) {
  const thread& own = threads_[current_];
  if ((own.mask >> other & 1U) == 0) {
    {
      const between_threads quiet;
      complain(fmt::format("{} reads at {} from lane {}, which it has not met", name_of(current_),
                           format_place(own.where), other));
    }
    stop();
  }
  return warps_[current_ / warp].values[other];
}

unsigned block::bits_of_warp() const {
  unsigned bits = 0;
  for (unsigned l = 0; l < warp; ++l)
    if ((threads_[current_].mask >> l & 1U) != 0 && warps_[current_ / warp].values[l] != 0) bits |= 1U << l;
  return bits;
}

void block::begin_copy(const later_copy& c, carry_out_copy carry_out) {
  {
    const between_threads quiet;
    threads_[current_].copies.push_back(c);
  }
  if (copies_early_) carry_out(c.to, c.from, c.bytes, c.there);
}

void block::finish_copies(carry_out_copy carry_out) {
  std::vector<later_copy> begun;
  {
    const between_threads quiet;
    begun.swap(threads_[current_].copies);
  }
  if (copies_early_) return;
  for (const later_copy& c : begun) carry_out(c.to, c.from, c.bytes, c.there);
}

bool block::complain(std::string why) {
  failure_ = fmt::format("kernel {}: {}", launch_.name, why);
  return false;
}

/// Why nobody can run, though some have not ended.
std::string block::stuck() const {
  std::string told = fmt::format("kernel {}:", launch_.name);
  const char* between = " ";
  for (const phase waiting : {phase::in_warp, phase::at_barrier})
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      if (threads_[t].now != waiting) continue;
      told += fmt::format("{}{} waits for ever at {}", between, name_of(t), format_place(threads_[t].where));
      between = ", ";
      break;
    }
  return told;
}

std::string block::name_of(std::size_t number) const {
  const uint3& i = threads_[number].index;
  return fmt::format("thread ({}, {}, {}) of block ({}, {}, {})", i.x, i.y, i.z, blockIdx.x, blockIdx.y,
                     blockIdx.z);
}

} // namespace mailgrad::simulated_gpu
