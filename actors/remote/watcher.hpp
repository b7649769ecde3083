#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace mailgrad::net {
class network;
}

namespace mailgrad::remote {

/// Somebody who asks a run of another process how it is, or asks it to change.
///
///     remote::watcher here("10.0.0.1:7000");
///     std::cout << here.ask("status");
///
/// Threads one caller at a time.
class watcher {
public:
  /// Joins as a watcher, of whom a run takes a few. `network` null: as for a membership.
  ///
  /// Errors  join_error (membership.hpp): refused, or nobody listens.
  explicit watcher(const std::string& address, std::shared_ptr<net::network> network = {});
  ~watcher();
  watcher(const watcher&) = delete;
  watcher& operator=(const watcher&) = delete;

  /// "status", which is answered with a JSON object; "switch" with a policy; "stop" with a reason. Waits for
  /// the answer, but at most for `span`. That the run has ended is an answer to "stop" as well.
  ///
  /// Errors  std::invalid_argument with the words of a refusal; std::runtime_error if no answer comes.
  std::string ask(const std::string& what, const std::string& argument = {},
                  std::chrono::milliseconds span = std::chrono::seconds{10});

  /// How many devices each worker of the run brings; several if its model spans them.
  std::uint32_t devices_per_worker() const;

private:
  class implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace mailgrad::remote
