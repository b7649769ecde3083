#pragma once

#include <mailgrad/actors/remote/membership.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/net/network.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

namespace mailgrad {

/// What a process does while it tries to join a run: after a second it says that it waits for a server,
/// unless it is `quiet`. A signal ends the process at once, since it has nothing to lose. This goes on until
/// the thread that is returned is stopped or destroyed; `ctrl_c` must outlive that thread.
std::jthread watch_connecting(const interrupt& ctrl_c, std::string address, bool quiet);

/// Says how somebody in a run has ended, unless that was in good order and `quiet`.
void say_end(const std::string& name, const net::ending& end, bool quiet);

struct joining {
  /// Of each worker; its devices and callbacks are set here. `number` is that of the first; the others
  /// follow.
  remote::join_options each{};
  bool quiet = false; ///< prints only what went wrong
  /// Whether the exit code of another process tells how the run has ended, so that this one tells of its
  /// workers alone.
  bool told_elsewhere = false;
  std::jthread until_joined{}; ///< watches while the first one joins; may be none
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
  void leave(const interrupt& ctrl_c);
  void print_news();
  int tell_end(remote::membership& member) const;

  lines_to_say news_; ///< what memberships tell from their threads
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
