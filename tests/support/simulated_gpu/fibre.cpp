#include "fibre.hpp"

#include "sanitizers.hpp"

#include <cstdint>
#include <cstdlib>
#include <new>
#include <sys/mman.h>

#if defined(__x86_64__) && !defined(MAILGRAD_PORTABLE_FIBRES)
#define MAILGRAD_OWN_SWITCH 1
// A switch of ucontext.h asks the system for the signal mask, which takes ten times as long as the switch
// itself.
asm(R"(
.text
.p2align 4
.globl mailgrad_switch_stack
.type mailgrad_switch_stack, @function
mailgrad_switch_stack:
  .cfi_startproc
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .cfi_endproc
.size mailgrad_switch_stack, .-mailgrad_switch_stack
)");
extern "C" void mailgrad_switch_stack(void** from, void* to);
#else
#include <ucontext.h>
#endif

namespace mailgrad::simulated_gpu {

namespace {

#ifdef MAILGRAD_OWN_SWITCH
/// Prepares a stack on which `begin` runs when it is switched to; returns what switch_stack() takes for it.
void* prepare_stack(void* bottom, std::size_t bytes, void (*begin)()) {
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(bottom) + bytes) / 16 * 16;
  auto* slot = reinterpret_cast<std::uintptr_t*>(end);
  *--slot = 0; // where a walk along the stack ends
  *--slot = reinterpret_cast<std::uintptr_t>(begin);
  for (int registers = 0; registers < 6; ++registers) *--slot = 0;
  return slot;
}

/// Keeps the registers and the place of the stack in `from`, and goes on with the stack `to`.
void switch_stack(void** from, void* to) { mailgrad_switch_stack(from, to); }

/// Lets go of what prepare_stack() or switch_stack() made.
void forget_stack(void*) noexcept {}

#else

void* prepare_stack(void* bottom, std::size_t bytes, void (*begin)()) {
  auto made = std::make_unique<ucontext_t>();
  getcontext(made.get());
  made->uc_stack.ss_sp = bottom;
  made->uc_stack.ss_size = bytes;
  made->uc_link = nullptr;
  makecontext(made.get(), begin, 0);
  return made.release();
}

void switch_stack(void** from, void* to) {
  if (*from == nullptr) *from = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(*from), static_cast<ucontext_t*>(to));
}

void forget_stack(void* top) noexcept { delete static_cast<ucontext_t*>(top); }

#endif

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
