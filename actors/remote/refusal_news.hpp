#pragma once

#include <mailgrad/net/timing.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace mailgrad::remote {

/// What is told of those who are refused: the first few of a minute, and how many others there were.
/// Strangers who knock without end would else fill the log.
///
/// Units   moments are those of one clock.
/// Threads one caller at a time.
class refusal_news {
public:
  static constexpr std::uint64_t most_a_minute = 3;

  /// The line to tell now; none: this refusal is only counted.
  std::optional<std::string> refused(const std::string& words, net::instant now) {
    std::string before;
    if (!began_ || now - *began_ >= std::chrono::minutes{1}) {
      before = rest();
      began_ = now;
      told_ = 0;
    }
    if (told_++ < most_a_minute) return before.empty() ? words : before + "\n" + words;
    ++untold_;
    last_ = words;
    return std::nullopt;
  }
  /// How many were refused since the last line; empty: nobody.
  std::string rest() {
    const std::uint64_t count = std::exchange(untold_, 0);
    if (count == 0) return {};
    return fmt::format("refused {} more connection{}; the last: {}", count, count == 1 ? "" : "s", last_);
  }

private:
  std::optional<net::instant> began_; ///< the present minute
  std::uint64_t told_ = 0, untold_ = 0;
  std::string last_;
};

} // namespace mailgrad::remote
