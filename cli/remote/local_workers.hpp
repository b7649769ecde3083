#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mailgrad {

/// What workers that the tool starts are told on their command lines.
struct worker_words {
  std::vector<std::string> devices;   ///< each worker has one of these lists, in turns: "cpu:0,cpu:1"
  std::vector<std::string> plugins{}; ///< for --plugin
  std::string data{};                 ///< for --data; empty: the server sends the batches
  std::uint64_t data_limit = 0;       ///< in GiB
};

/// Workers that the tool starts as processes of their own on this machine.
///
/// Threads one owner.
class local_workers {
public:
  local_workers() = default;
  /// Ends those that still live.
  ~local_workers();
  local_workers(const local_workers&) = delete;
  local_workers& operator=(const local_workers&) = delete;

  /// Starts `mailgrad join ADDRESS` so many times. A signal from the terminal goes to this process alone,
  /// which then ends them in good order.
  ///
  /// Errors  std::system_error if a process cannot be started.
  void start(const std::string& address, std::uint32_t workers, const worker_words& words);

  /// How many have ended.
  std::size_t ended();
  /// Waits for all of them, who end by themselves when the server has ended; kills those that take longer
  /// than two seconds.
  void wait();

private:
  struct process {
    pid_t id = 0;
    bool ended = false;
  };
  void reap();

  std::vector<process> all_;
};

} // namespace mailgrad
