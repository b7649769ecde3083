#include <mailgrad/cli/exit_code.hpp>

#include <mailgrad/actors/remote/serve_options.hpp>
#include <mailgrad/tensor/error.hpp>

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <system_error>

namespace mailgrad {

int exit_code_of(const std::exception& e) {
  if (const auto* by = dynamic_cast<const ended_by_signal*>(&e)) return exit_code::of_signal(by->number());
  if (dynamic_cast<const remote::called_off*>(&e) != nullptr) return exit_code::done;
  if (const auto* by = dynamic_cast<const device_error*>(&e);
      by && (by->code() == world_errc::device_failure || by->code() == world_errc::out_of_memory))
    return exit_code::failed;
  const bool mendable = dynamic_cast<const std::invalid_argument*>(&e) != nullptr ||
                        dynamic_cast<const std::system_error*>(&e) != nullptr;
  return mendable ? exit_code::bad_input : exit_code::failed;
}

int exit_code_of(const net::ending& e) {
  return e.reason == net::end_reason::left ? exit_code::done : exit_code::failed;
}

namespace {

/// Two signals that come at once may be handled on two threads.
using shared_number = std::atomic<int>;
static_assert(shared_number::is_always_lock_free, "or no handler may use it");

shared_number signalled = 0;
shared_number first_came = 0;  ///< milliseconds, of a clock that may wrap around
shared_number on_terminal = 0; ///< a progress bar may stand in the last line there

/// The milliseconds of a clock that nobody sets, without those that an int cannot hold.
int milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  constexpr long wrap = 1'000'000; // seconds
  return static_cast<int>(now.tv_sec % wrap * 1000 + now.tv_nsec / 1'000'000);
}

std::atomic<const char*> words_of_second = "";
static_assert(std::atomic<const char*>::is_always_lock_free);

void print(const char* text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
}

/// Calls only functions that POSIX allows in a signal handler.
extern "C" void on_signal(int number) {
  const int now = milliseconds();
  if (signalled == 0) {
    first_came = now; // before another thread may ask for it
    signalled = number;
    return;
  }
  constexpr int same_event = 250;
  if (const int since = now - first_came; since >= 0 && since < same_event) return;
  const char* const words = words_of_second.exchange(nullptr);
  if (!words) return; // a handler on another thread writes them, and then ends the process
  print(on_terminal == 0 ? "mailgrad: " : "\nmailgrad: ");
  print(words);
  print("\n");
  std::signal(number, SIG_DFL);
  std::raise(number); // the signal is delivered when this handler returns
}

} // namespace

interrupt::interrupt(const char* second) {
  signalled = 0;
  words_of_second = second;
  on_terminal = isatty(STDERR_FILENO);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : caught_) sigaddset(&action.sa_mask, number);
  for (std::size_t i = 0; i < caught_.size(); ++i) {
    sigaction(caught_[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(caught_[i], &action, nullptr);
  }
}

interrupt::~interrupt() {
  for (std::size_t i = 0; i < caught_.size(); ++i) sigaction(caught_[i], &before_[i], nullptr);
}

int interrupt::signal() const noexcept { return signalled; }

std::string signal_name(int number) {
  return number == SIGINT    ? "SIGINT"
         : number == SIGTERM ? "SIGTERM"
         : number == SIGHUP  ? "SIGHUP"
                             : "signal " + std::to_string(number);
}

} // namespace mailgrad
