#include "block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

// NOLINTBEGIN(readability-identifier-naming): the names are those of CUDA
uint3 threadIdx{}, blockIdx{};
dim3 blockDim, gridDim;
// NOLINTEND(readability-identifier-naming)

namespace mailgrad::simulated_gpu {

namespace {

template <class T>
void arrange(std::vector<T>& items, thread_order order, drawn_numbers& drawn) {
  if (order == thread_order::backward) std::ranges::reverse(items);
  if (order != thread_order::shuffled) return;
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[drawn.below(i)]);
}

block* running = nullptr;

fibre_pool& fibres(void (*body)()) {
  static auto* const pool = new fibre_pool(body);
  return *pool;
}

std::string format_place(const std::source_location& where) {
  return fmt::format("{}:{}", where.file_name(), where.line());
}

bool same(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() ||
          std::string_view(a.file_name()) == std::string_view(b.file_name()));
}

struct free_bytes {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using shared_block = std::unique_ptr<std::byte, free_bytes>;

/// malloc's memory begins at a multiple of 16, as shared memory does, and ends where it was asked to.
shared_block make_shared_memory(std::size_t bytes) {
  shared_block made(bytes == 0 ? nullptr : static_cast<std::byte*>(std::malloc(bytes)));
  for (std::size_t i = 0; i < bytes; ++i) made.get()[i] = std::byte{0xff};
  return made;
}

} // namespace

std::uint64_t drawn_numbers::below(std::uint64_t limit) {
  state_ += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state_;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
  z = (z ^ z >> 27) * 0x94d049bb133111ebU;
  return (z ^ z >> 31) % limit;
}

thread_numbers first_numbers(std::size_t n) {
  thread_numbers all;
  all.reserve(n);
  for (std::size_t i = 0; i < n; ++i) all.push_back({i});
  return all;
}

void ready_threads::add(thread_numbers& threads) {
  const bool far = order_.far == reach::one_warp_far;
  if (far && threads.front().value / warp != threads.back().value / warp)
    arrange_by_warps(threads);
  else
    arrange(threads, order_.order, drawn_);
  waiting_.insert(far ? waiting_.begin() : waiting_.end(), threads.begin(), threads.end());
}

void ready_threads::arrange_by_warps(thread_numbers& threads) {
  std::vector<thread_numbers> warps;
  for (const thread_number t : threads) {
    if (warps.empty() || warps.back().front().value / warp != t.value / warp) warps.emplace_back();
    warps.back().push_back(t);
  }
  arrange(warps, order_.order, drawn_);
  threads.clear();
  for (auto& lanes : warps) {
    arrange(lanes, order_.order, drawn_);
    threads.insert(threads.end(), lanes.begin(), lanes.end());
  }
}

thread_numbers arranged_blocks(const schedule& order, std::uint64_t number, std::size_t n) {
  thread_numbers blocks = first_numbers(n);
  drawn_numbers drawn(order.seed * 104729 + number);
  arrange(blocks, order.order, drawn);
  return blocks;
}

block& block::now() {
  if (running == nullptr) std::abort(); // called by the host: nvcc would not have compiled it
  return *running;
}

std::optional<std::string> block::run(order_point& begin, order_point& end) {
  begin_ = &begin;
  end_ = &end;
  make_threads();
  // To ThreadSanitizer, whoever makes a thread comes before it, so none of the threads makes another.
  if (with_thread_sanitizer)
    for (thread& t : threads_) give_stack(t);
  add_all();

  fibre here;
  outside_ = &here;
  running = this;
  next_stack()->go_on_from(here);
  running = nullptr;
  if (ended_ < threads_.size() && !failure_) failure_ = stuck();
  give_stacks_back();
  return failure_;
}

void block::make_threads() {
  const dim3& d = launch_.block;
  threads_.reserve(std::size_t{d.x} * d.y * d.z);
  for (unsigned z = 0; z < d.z; ++z)
    for (unsigned y = 0; y < d.y; ++y)
      for (unsigned x = 0; x < d.x; ++x) threads_.emplace_back().index = {x, y, z};
  warps_.resize((threads_.size() + warp - 1) / warp);
  for (std::size_t t = 0; t < threads_.size(); ++t) warps_[t / warp].existing |= 1U << (t % warp);
}

void block::add_all() {
  thread_numbers all = first_numbers(threads_.size());
  ready_.add(all);
}

void block::give_stacks_back() {
  for (fibre* f : idle_) fibres(thread_body).give_back(f);
  for (const thread& t : threads_) delete t.stack; // of a thread that would never end
}

/// What each fibre runs for ever: one thread after the other.
void block::thread_body() {
  while (true) running->run_current();
}

void block::run_current() {
  fibre& own = *threads_[current_].stack;
  begin_->passed();
  launch_.thread();
  end_->left();
  fibre* const next = stack_after_end();
  if (next != &own) next->go_on_from(own);
}

/// Ends the current thread, and returns the stack to go on with.
fibre* block::stack_after_end() {
  const between_threads quiet;
  thread& own = threads_[current_];
  own.now = phase::ended;
  ++ended_;
  last_ended_ = current_;
  warps_[current_ / warp].ended |= 1U << lane();
  if (!own.copies.empty()) {
    const auto& where = own.copies.front().where;
    complain(fmt::format("{} has ended without waiting for its copy of {}:{}", name_of(current_),
                         where.file_name(), where.line()));
    return outside_;
  }
  if (at_barrier_ > 0) {
    const auto& where = threads_[last_at_barrier_].where;
    complain(fmt::format("{} has ended without the barrier {}:{}, at which {} waits", name_of(current_),
                         where.file_name(), where.line(), name_of(last_at_barrier_)));
    return outside_;
  }
  idle_.push_back(own.stack); // a thread that waits for nobody costs no switch: the next one may take it
  own.stack = nullptr;
  return next_stack();
}

/// Makes the next thread the current one, and returns its stack; that of outside if no thread can run.
fibre* block::next_stack() {
  if (ready_.empty()) return outside_;
  current_ = ready_.take().value;
  thread& t = threads_[current_];
  t.now = phase::running;
  if (t.stack == nullptr) give_stack(t);
  threadIdx = t.index;
  return t.stack;
}

void block::give_stack(thread& t) {
  if (idle_.empty()) {
    t.stack = fibres(thread_body).take();
    return;
  }
  t.stack = idle_.back();
  idle_.pop_back();
}

/// Leaves the current thread until it is ready once more.
void block::go_on() {
  fibre& own = *threads_[current_].stack;
  fibre* next = nullptr;
  {
    const between_threads quiet;
    next = next_stack();
  }
  if (next != &own) next->go_on_from(own);
}

/// Leaves the current thread for good.
void block::stop() {
  outside_->go_on_from(*threads_[current_].stack);
  std::abort();
}

// Where the threads of a block wait for each other, and what is wrong with it.

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

std::optional<std::string> refusal_of(const kernel_launch& l) {
  const std::size_t threads = std::size_t{l.block.x} * l.block.y * l.block.z;
  const std::size_t blocks = std::size_t{l.grid.x} * l.grid.y * l.grid.z;
  if (threads == 0 || threads > most_threads || l.block.z > 64)
    return fmt::format("a block of {}x{}x{} threads; a GPU runs 1 to {}", l.block.x, l.block.y, l.block.z,
                       most_threads);
  if (blocks == 0 || l.grid.x > 0x7fffffffU || l.grid.y > 65535 || l.grid.z > 65535)
    return fmt::format("a grid of {}x{}x{} blocks", l.grid.x, l.grid.y, l.grid.z);
  if (l.shared_bytes > 99 * 1024)
    return fmt::format("{} bytes of shared memory; a block has 99 KiB", l.shared_bytes);
  return std::nullopt;
}

std::optional<std::string> run_grid(const kernel_launch& l, const schedule& order, std::uint64_t number) {
  order_point begin, end;
  blockDim = l.block;
  gridDim = l.grid;
  begin.left();
  // ThreadSanitizer takes memory that was freed and given to another block for memory that both share.
  std::vector<shared_block> kept;
  std::optional<std::string> failure;
  const std::size_t blocks = std::size_t{l.grid.x} * l.grid.y * l.grid.z;
  for (const auto [b] : arranged_blocks(order, number, blocks)) {
    blockIdx = {static_cast<unsigned>(b % l.grid.x), static_cast<unsigned>(b / l.grid.x % l.grid.y),
                static_cast<unsigned>(b / l.grid.x / l.grid.y)};
    shared_block shared = make_shared_memory(l.shared_bytes);
    begin.left(); // the memory is made
    failure = block(l, order, number * blocks + b, shared.get()).run(begin, end);
    if (with_thread_sanitizer) kept.push_back(std::move(shared));
    if (failure) break;
  }
  end.passed();
  return failure;
}

void* shared_memory() { return block::now().shared(); }
void block_barrier(std::source_location where) { block::now().barrier(false, where); }
unsigned block_barrier_count(bool mine, std::source_location where) {
  return block::now().barrier(mine, where);
}
void meet_in_warp(unsigned mask, std::uint64_t value, bool ordered, std::source_location where) {
  block::now().meet(mask, value, ordered, where);
}
std::uint64_t value_of_lane(unsigned lane) { return block::now().value_of(lane); }
unsigned own_lane() { return block::now().lane(); }
void begin_copy(const later_copy& c, carry_out_copy carry_out) { block::now().begin_copy(c, carry_out); }
void finish_copies(carry_out_copy carry_out) { block::now().finish_copies(carry_out); }

unsigned ballot(unsigned mask, bool mine, std::source_location where) {
  block& now = block::now();
  now.meet(mask, mine ? 1 : 0, false, where);
  return now.bits_of_warp();
}

} // namespace mailgrad::simulated_gpu
