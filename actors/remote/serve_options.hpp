#pragma once

#include <mailgrad/net/timing.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace mailgrad::net {
class network;
}

namespace mailgrad::remote {

/// A run was ended by a watcher before it had begun, so it has no report that could say so.
class called_off : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// How workers of other processes find a run.
struct serve_options {
  std::string listen = "127.0.0.1:0"; ///< HOST:PORT, port 0: a free one; or memory:NAME
  std::uint32_t workers = 1;          ///< the run begins when so many have joined
  std::uint32_t devices = 1;          ///< that each worker brings, over which its model spans
  std::uint32_t shard_hosts = 0;      ///< processes that hold the shards; 0: the server holds them itself
  std::string wire = "float32";       ///< how gradients travel, as parse_wire_format() reads it
  /// How long the run waits for them before it is given up; 0: for ever.
  std::chrono::milliseconds patience{0};
  net::timing times{}; ///< every time limit, which workers are told as well
  /// What carries the bytes; null: shared memory for memory:NAME, else TCP, which then needs a loopback
  /// address.
  std::shared_ptr<net::network> network{};
  /// Called for everybody who comes or goes, with one line of words, from the network's thread. It must not
  /// block.
  std::function<void(const std::string&)> on_event{};
  /// Called in the same way for everybody who is lost or refused; null: on_event is.
  std::function<void(const std::string&)> on_trouble{};
  /// Asked a few times a second while workers or parameter hosts are missing, with the number of workers that
  /// have joined. False: the run is given up.
  std::function<bool(std::uint32_t joined)> go_on_waiting{};
  /// Called with the address where workers find the run, before the first one is waited for.
  std::function<void(const std::string& address)> on_listening{};
  /// Gives a watcher the state of the run, as a JSON object; called on a thread of its own, and may block.
  std::function<std::string()> status{};
};

} // namespace mailgrad::remote
