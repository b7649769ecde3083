#include <mailgrad/cli/interrupt.hpp>

#include <csignal>

namespace mailgrad {

namespace {

volatile std::sig_atomic_t signalled = 0;

extern "C" void on_signal(int number) {
  signalled = 1;
  std::signal(number, SIG_DFL);
}

} // namespace

interrupt::interrupt() {
  signalled = 0;
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

interrupt::~interrupt() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool interrupt::requested() const noexcept { return signalled != 0; }

} // namespace mailgrad
