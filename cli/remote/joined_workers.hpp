#pragma once

#include <mailgrad/actors/remote/membership.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/engine/plan/known_plugins.hpp>
#include <mailgrad/engine/worker/local_samples.hpp>
#include <mailgrad/net/all_reduce.hpp>
#include <mailgrad/net/network.hpp>
#include <mailgrad/tensor/device.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace mailgrad {

/// What a process does while it tries to join a run: it says after a second that it waits for a server, and a
/// signal ends it at once, since it has nothing to lose.
///
/// Threads one owner; it has a thread of its own.
class connecting {
public:
  /// `quiet`: nothing is said but that a signal has ended it.
  connecting(const interrupt& ctrl_c, std::string address, bool quiet);
  /// It has joined, or was not taken in.
  ~connecting();
  connecting(const connecting&) = delete;
  connecting& operator=(const connecting&) = delete;

private:
  void watch();

  const interrupt& ctrl_c_;
  const std::string address_;
  const bool quiet_;
  std::mutex mutex_; ///< guards `over_`
  std::condition_variable ended_;
  bool over_ = false;
  std::thread watcher_;
};

/// How workers of this process join.
struct joining {
  std::optional<std::uint32_t> number{}; ///< of the first; the others follow; none: those that are free
  std::shared_ptr<net::network> network{};
  bool quiet = false;                       ///< prints only what went wrong
  std::chrono::milliseconds rejoin{};       ///< for so long one that is cut off tries to come back
  std::shared_ptr<local_samples> samples{}; ///< of this machine; null: the server sends batches
  /// Takes part in sums over all workers; null: it cannot.
  std::function<std::unique_ptr<net::all_reduce>(std::size_t floats)> join_sums{};
  known_plugins plugins{};   ///< of which a worker that takes local steps may need one
  bool gpu_ends_run = false; ///< a GPU that fails ends the run, in order, and not its worker alone
  /// Whether the exit code of another process tells how the run has ended, so that this one tells of its
  /// workers alone.
  bool told_elsewhere = false;
  std::unique_ptr<connecting> until_joined{}; ///< of the first; may be null
};

/// Workers of this process in a run of another process.
///
/// Threads one owner.
class joined_workers {
public:
  /// Joins with a worker for each list of devices. If the run has places for some of them alone, these take
  /// part, and one line says which devices are left out: a worker that left again because another found no
  /// place would end a run that has begun with it.
  ///
  /// Errors  remote::join_error if the first is not taken in, or another for a reason that is not its place;
  ///         std::invalid_argument for an address that is none.
  joined_workers(const std::string& address, const std::vector<std::vector<device>>& workers, joining how);

  /// Waits until every worker has ended, and returns an exit code: that of a failure if any of them failed.
  /// The end of each is printed when it comes. After a signal it gives the server so long to end the run, and
  /// then leaves after the present step. The code is that of the signal only if it made them leave.
  int wait(const interrupt& ctrl_c, std::chrono::milliseconds for_server = {});

private:
  std::unique_ptr<remote::membership> joined(const std::string& address, const std::vector<device>& on,
                                             const joining& how, std::size_t which);
  void tell(const std::string& words);
  void leave(const interrupt& ctrl_c);
  void print_news();
  int tell_end(remote::membership& member) const;

  std::mutex mutex_;              ///< guards the news
  std::vector<std::string> news_; ///< what memberships tell from their threads
  std::vector<std::unique_ptr<remote::membership>> members_;
  const bool quiet_, told_elsewhere_;
};

/// Shares devices out to so many workers; 0: as many as the run at this address has devices for, which it is
/// asked if there are several. A worker gets neighbours.
///
/// Errors  std::invalid_argument if they cannot be shared out evenly; remote::join_error as a worker.
std::vector<std::vector<device>> shared_out(const std::vector<device>& devices, std::uint32_t workers,
                                            const std::string& address,
                                            const std::shared_ptr<net::network>& network);

} // namespace mailgrad
