#include "block.hpp"

#include "fibre_pool.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <utility>

uint3 threadIdx{}, blockIdx{};
dim3 blockDim, gridDim;

namespace mailgrad::simulated_card {

namespace {

block* running = nullptr;

std::string place(const std::source_location& where) {
  return fmt::format("{}:{}", where.file_name(), where.line());
}

bool same(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         std::string_view(a.file_name()) == std::string_view(b.file_name());
}

fibre_pool& fibres(void (*body)()) {
  static fibre_pool pool(body);
  return pool;
}

} // namespace

block& block::now() {
  if (running == nullptr) std::abort(); // called by the host: nvcc would not have compiled it
  return *running;
}

std::optional<std::string> block::run(order_point& begin, order_point& end) {
  begin_ = &begin;
  end_ = &end;
  threads_.resize(std::size_t{launch_.block.x} * launch_.block.y * launch_.block.z);
  warps_.resize((threads_.size() + warp - 1) / warp);
  for (std::size_t t = 0; t < threads_.size(); ++t) warps_[t / warp].existing |= 1U << (t % warp);
  ready_.add(first_numbers(threads_.size()));

  fibre here;
  outside_ = &here;
  running = this;
  enter(ready_.take().value);
  threads_[current_].stack->go_on_from(here);
  running = nullptr;
  if (ended_ < threads_.size() && !failure_) failure_ = stuck();
  for (fibre* f : idle_) fibres(thread_body).give_back(f);
  for (const thread& t : threads_)
    if (t.stack != nullptr) delete t.stack; // it would never end
  return failure_ ? std::optional(fmt::format("kernel {}: {}", launch_.name, *failure_)) : std::nullopt;
}

/// What each fibre runs for ever: one thread after the other.
void block::thread_body() {
  while (true) running->run_current();
}

void block::run_current() {
  begin_->passed();
  launch_.thread();
  end_->left();
  end_current();
  fibre& own = *threads_[current_].stack;
  threads_[current_].stack = nullptr;
  const bool takes_another = !with_thread_sanitizer && !ready_.empty();
  if (takes_another) {
    const std::size_t next = ready_.take().value;
    if (threads_[next].stack == nullptr) {
      threads_[next].stack = &own; // a thread that waits for nobody costs no switch
      return enter(next);
    }
    idle_.push_back(&own);
    enter(next);
    return threads_[next].stack->go_on_from(own);
  }
  idle_.push_back(&own);
  if (ready_.empty()) return outside_->go_on_from(own);
  enter(ready_.take().value);
  threads_[current_].stack->go_on_from(own);
}

/// Makes `next` the thread that runs, as soon as its fibre is switched to.
void block::enter(std::size_t next) {
  current_ = next;
  thread& t = threads_[next];
  t.now = phase::running;
  if (t.stack == nullptr) {
    if (idle_.empty() || with_thread_sanitizer) {
      t.stack = fibres(thread_body).take();
    } else {
      t.stack = idle_.back();
      idle_.pop_back();
    }
  }
  const auto n = static_cast<unsigned>(next);
  threadIdx = {n % launch_.block.x, n / launch_.block.x % launch_.block.y,
               n / launch_.block.x / launch_.block.y};
}

/// Leaves the current thread until it is ready once more.
void block::go_on() {
  fibre& own = *threads_[current_].stack;
  if (ready_.empty()) return outside_->go_on_from(own);
  enter(ready_.take().value);
  fibre& next = *threads_[current_].stack;
  if (&next != &own) next.go_on_from(own);
}

void block::wait_as(phase why, std::source_location where) {
  threads_[current_].now = why;
  threads_[current_].where = where;
}

unsigned block::barrier(bool mine, std::source_location where) {
  if (ended_ > 0)
    stop(fmt::format("{} waits at the barrier {}, which {} has ended without", name_of(current_),
                     place(where), name_of(last_ended_)));
  if (at_barrier_ > 0 && !same(threads_[last_at_barrier_].where, where))
    stop(fmt::format("{} waits at the barrier {}, while {} waits at {}", name_of(current_), place(where),
                     name_of(last_at_barrier_), place(threads_[last_at_barrier_].where)));
  last_at_barrier_ = current_;
  wait_as(phase::at_barrier, where);
  votes_ += mine ? 1U : 0U;
  barrier_.left();
  if (++at_barrier_ == threads_.size()) release_barrier();
  go_on();
  barrier_.passed();
  return decided_;
}

void block::release_barrier() {
  decided_ = std::exchange(votes_, 0);
  at_barrier_ = 0;
  ready_.add(first_numbers(threads_.size()));
}

void block::end_current() {
  threads_[current_].now = phase::ended;
  ++ended_;
  warps_[current_ / warp].ended |= 1U << lane();
  last_ended_ = current_;
  if (at_barrier_ == 0) return;
  stop(fmt::format("{} has ended without the barrier {}, at which {} waits", name_of(current_),
                   place(threads_[last_at_barrier_].where), name_of(last_at_barrier_)));
}

void block::meet(unsigned mask, std::uint64_t value, bool ordered, std::source_location where) {
  warp_state& w = warps_[current_ / warp];
  const std::size_t first = current_ / warp * warp;
  mask &= w.existing;
  if ((mask >> lane() & 1U) == 0)
    stop(fmt::format("{} is not in its own mask at {}", name_of(current_), place(where)));
  if ((mask & w.ended) != 0)
    stop(
        fmt::format("{} waits at {} for lanes of its warp that have ended", name_of(current_), place(where)));
  for (unsigned other = 0; other < warp && (mask & w.arrived) != 0; ++other) {
    if ((mask & w.arrived & 1U << other) == 0) continue;
    const thread& t = threads_[first + other];
    if (t.mask != mask || !same(t.where, where))
      stop(fmt::format("{} waits at {} for the lanes {:#x}, while {} waits at {} for {:#x}",
                       name_of(current_), place(where), mask, name_of(first + other), place(t.where),
                       t.mask));
    break;
  }
  threads_[current_].mask = mask;
  threads_[current_].handed_in = value;
  wait_as(phase::in_warp, where);
  if (ordered) w.order.left();
  w.arrived |= 1U << lane();
  if ((w.arrived & mask) == mask) {
    w.arrived &= ~mask;
    thread_numbers met;
    for (unsigned l = 0; l < warp; ++l) {
      if ((mask >> l & 1U) == 0) continue;
      met.push_back({first + l});
      w.values[l] = threads_[first + l].handed_in;
    }
    ready_.add(met);
  }
  go_on();
  if (ordered) w.order.passed();
}

std::uint64_t block::value_of(unsigned other) {
  const thread& own = threads_[current_];
  if ((own.mask >> other & 1U) == 0)
    stop(fmt::format("{} reads at {} from lane {}, which is not there", name_of(current_), place(own.where),
                     other));
  return warps_[current_ / warp].values[other];
}

unsigned block::bits_of_warp() {
  unsigned bits = 0;
  for (unsigned l = 0; l < warp; ++l)
    if ((threads_[current_].mask >> l & 1U) != 0 && warps_[current_ / warp].values[l] != 0) bits |= 1U << l;
  return bits;
}

void block::stop(std::string why) {
  if (!failure_) failure_ = std::move(why);
  fibre* const own = threads_[current_].stack;
  outside_->go_on_from(*own);
  std::abort();
}

/// Why nobody can run, though some have not ended.
std::string block::stuck() const {
  std::string told;
  for (std::size_t t = 0; t < threads_.size() && told.empty(); ++t)
    if (threads_[t].now == phase::in_warp)
      told = fmt::format("{} waits for ever at {} for the lanes {:#x}", name_of(t), place(threads_[t].where),
                         threads_[t].mask);
  for (std::size_t t = 0; t < threads_.size(); ++t)
    if (threads_[t].now == phase::at_barrier)
      return fmt::format("{}, while {} waits at the barrier {}", told, name_of(t), place(threads_[t].where));
  return told;
}

std::string block::name_of(std::size_t number) const {
  const auto n = static_cast<unsigned>(number);
  return fmt::format("thread ({}, {}, {}) of block ({}, {}, {})", n % launch_.block.x,
                     n / launch_.block.x % launch_.block.y, n / launch_.block.x / launch_.block.y, blockIdx.x,
                     blockIdx.y, blockIdx.z);
}

} // namespace mailgrad::simulated_card
