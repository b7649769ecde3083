#pragma once

#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/hello.hpp>
#include <mailgrad/net/timing.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace mailgrad::remote {

/// Whether a connection or the peer's patience ended, and not the work.
bool is_of_the_connection(net::end_reason r) noexcept;

/// When a worker that was cut off from its run tries to come back, as whom, and when it gives up.
///
///     in --lost, silent, superseded or late--> cut off --a try--> in
///      \--any other end--> out                     \--final, or out of patience--> out
///
/// It comes back only to the run that it knows. First it asks for its own number under the next incarnation:
/// that ends what the server may still take for alive of the worker itself, and of nobody else. If another
/// worker has the number by now, it takes any that is free.
///
/// Units   moments are those of one clock.
/// Threads one caller at a time.
class rejoin_plan {
public:
  static constexpr std::chrono::milliseconds shortest_pause{50};
  /// So that a worker is back within a second of its network.
  static constexpr std::chrono::milliseconds longest_pause{500};

  /// It tries for so long at most; 0: not at all.
  explicit rejoin_plan(std::chrono::milliseconds patience) : patience_(patience) {}

  /// The server has taken it in, by these terms.
  void is_in(const net::welcome& terms, net::instant now);
  /// Its session has ended. Whether it shall try to come back.
  bool is_cut_off(const net::ending& why, net::instant now);
  /// How long to wait before the next try: nothing before the first, and longer each time, also when it was
  /// cut off again at once.
  std::chrono::milliseconds pause() const noexcept { return pause_; }
  /// What the next try says.
  net::hello says() const;
  /// The try failed. Whether another one shall follow.
  bool tries_again_after(const net::ending& why, net::instant now);

private:
  std::chrono::milliseconds patience_;
  net::welcome terms_;
  net::instant in_since_{0};
  net::instant until_{0}; ///< of patience
  std::chrono::milliseconds pause_{0};
  bool takes_any_ = false; ///< number, since its own is another's now
};

} // namespace mailgrad::remote
