#include "block.hpp"

#include "fibre_pool.hpp"

#include <fmt/format.h>

#include <cstdlib>

// NOLINTBEGIN(readability-identifier-naming): the names are those of CUDA
uint3 threadIdx{}, blockIdx{};
dim3 blockDim, gridDim;
// NOLINTEND(readability-identifier-naming)

namespace mailgrad::simulated_gpu {

namespace {

block* running = nullptr;

fibre_pool& fibres(void (*body)()) {
  static auto* const pool = new fibre_pool(body);
  return *pool;
}

} // namespace

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

} // namespace mailgrad::simulated_gpu
