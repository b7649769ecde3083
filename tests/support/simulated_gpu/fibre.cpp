#include "fibre.hpp"

#include "sanitizers.hpp"
#include "stack_switch.hpp"

#include <cstdlib>
#include <new>
#include <sys/mman.h>

namespace mailgrad::simulated_gpu {

namespace {

constexpr std::size_t stack_bytes = std::size_t{256} << 10; // frames of AddressSanitizer without -O are large
constexpr std::size_t guard_bytes = std::size_t{64} << 10;

fibre* left = nullptr;    ///< by the switch under way
fibre* entered = nullptr; ///< by the switch under way

} // namespace

fibre::fibre() : order_(current_order()) {}

fibre::fibre(void (*body)()) : body_(body), bytes_(stack_bytes), order_(make_order()) {
  mapped_ = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapped_ == MAP_FAILED) throw std::bad_alloc();
  mprotect(mapped_, guard_bytes, PROT_NONE);
  bottom_ = static_cast<char*>(mapped_) + guard_bytes;
  top_ = prepare_stack(static_cast<char*>(mapped_) + guard_bytes, stack_bytes, begin);
}

fibre::~fibre() {
  forget_stack(top_);
  if (mapped_ == nullptr) return;
  end_order(order_);
  allow(bottom_, bytes_); // frames that never ended have left their red zones
  munmap(mapped_, guard_bytes + stack_bytes);
}

void fibre::go_on_from(fibre& from) {
  left = &from;
  entered = this;
#ifdef MAILGRAD_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&from.fake_stack_, bottom_, bytes_);
#endif
  enter_order(order_);
  switch_stack(&from.top_, top_);
#ifdef MAILGRAD_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(from.fake_stack_, &left->bottom_, &left->bytes_);
#endif
}

void fibre::begin() {
#ifdef MAILGRAD_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(nullptr, &left->bottom_, &left->bytes_);
#endif
  entered->body_();
  std::abort();
}

} // namespace mailgrad::simulated_gpu
