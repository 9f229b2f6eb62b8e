#include "emulator/device/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulator {

namespace {

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

thread_local Fiber* starting = nullptr;  ///< the fiber whose first resume() is under way

}  // namespace

#if defined(__x86_64__)

// Saves the registers that a call must keep, and the stack pointer; goes on where `to` was saved. (swapcontext does the
// same and two system calls.)
extern "C" void tessera_emulator_switch(void** from, void* to);
asm(R"(
.text
.globl tessera_emulator_switch
.type tessera_emulator_switch, @function
tessera_emulator_switch:
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
.size tessera_emulator_switch, .-tessera_emulator_switch
)");

#else

extern "C" void tessera_emulator_switch(void** from, void* to) {
  ucontext_t here;
  *from = &here;
  swapcontext(&here, static_cast<ucontext_t*>(to));
}

#endif

Fiber::Fiber() {
  void* memory = mmap(nullptr, page_bytes() + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, page_bytes(), PROT_NONE) != 0) throw std::bad_alloc();
  stack_ = static_cast<std::byte*>(memory);
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, page_bytes() + kStackBytes);  // whoever gets these addresses next
#endif
  munmap(stack_, page_bytes() + kStackBytes);
}

void Fiber::start() {
  Fiber* self = starting;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->caller_stack_, &self->caller_stack_bytes_);
#endif
  self->entry_(self->argument_);
  __builtin_unreachable();
}

void Fiber::prepare(void (*entry)(void*), void* argument) {
  entry_ = entry, argument_ = argument;
  fiber_fake_stack_ = nullptr;
  std::byte* top = stack_ + page_bytes() + kStackBytes;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_ + page_bytes(), kStackBytes);  // a function that was left for good lay here
#endif
#if defined(__x86_64__)
  // What the switch pops: six registers, then start() as the return address; the stack is aligned as after a call.
  auto** place = reinterpret_cast<void**>(top) - 8;
  std::memset(static_cast<void*>(place), 0, 8 * sizeof(void*));
  place[6] = reinterpret_cast<void*>(&Fiber::start);
  fiber_place_ = static_cast<void*>(place);
#else
  auto* context = reinterpret_cast<ucontext_t*>(top - sizeof(ucontext_t) - 64);
  getcontext(context);
  context->uc_stack.ss_sp = stack_ + page_bytes();
  context->uc_stack.ss_size = kStackBytes - sizeof(ucontext_t) - 128;
  makecontext(context, &Fiber::start, 0);
  fiber_place_ = context;
#endif
}

void Fiber::resume() {
  starting = this;
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack_ + page_bytes(), kStackBytes);
#endif
  tessera_emulator_switch(&caller_place_, fiber_place_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void Fiber::leave() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fiber_fake_stack_, caller_stack_, caller_stack_bytes_);
#endif
  tessera_emulator_switch(&fiber_place_, caller_place_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fiber_fake_stack_, &caller_stack_, &caller_stack_bytes_);
#endif
}

}  // namespace emulator
