#include <mailgrad/cli/remote/connecting.hpp>

#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/output/failure_line.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <utility>

namespace mailgrad {

namespace {

constexpr std::chrono::milliseconds pause_of_watch{20};
constexpr std::chrono::seconds before_words{1};

} // namespace

connecting::connecting(const interrupt& ctrl_c, std::string address, bool quiet)
    : ctrl_c_(ctrl_c), address_(std::move(address)), quiet_(quiet), watcher_([this] { watch(); }) {}

connecting::~connecting() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  watcher_.join();
}

void connecting::watch() {
  const auto speaks = std::chrono::steady_clock::now() + before_words;
  bool has_spoken = quiet_;
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, pause_of_watch, [this] { return over_; })) {
    if (ctrl_c_.requested()) {
      say_failure(fmt::format("ended by {} before it had joined the run at {}", signal_name(ctrl_c_.signal()),
                              address_));
      std::_Exit(exit_code::of_signal(ctrl_c_.signal()));
    }
    if (has_spoken || std::chrono::steady_clock::now() < speaks) continue;
    has_spoken = true;
    say_line(fmt::format("waits for a server at {}; Ctrl-C ends it", address_));
  }
}

} // namespace mailgrad
