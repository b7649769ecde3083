#include "stack_switch.hpp"

#include <cstdint>

#if !defined(__x86_64__) || defined(MAILGRAD_PORTABLE_FIBRES)
#include <memory>
#include <ucontext.h>
#endif

namespace mailgrad::simulated_gpu {

#if defined(__x86_64__) && !defined(MAILGRAD_PORTABLE_FIBRES)

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

void* prepare_stack(void* bottom, std::size_t bytes, void (*begin)()) {
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(bottom) + bytes) / 16 * 16;
  auto* slot = reinterpret_cast<std::uintptr_t*>(end);
  *--slot = 0; // where a walk along the stack ends
  *--slot = reinterpret_cast<std::uintptr_t>(begin);
  for (int registers = 0; registers < 6; ++registers) *--slot = 0;
  return slot;
}

void switch_stack(void** from, void* to) { mailgrad_switch_stack(from, to); }

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

} // namespace mailgrad::simulated_gpu
