#pragma once

#include <mailgrad/engine/account/time_source.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace mailgrad {

/// How long something took, over all the times it was done and known.
class duration_stat {
public:
  void add(instant span) noexcept {
    ++count_;
    total_ += span;
    longest_ = std::max(longest_, span);
  }
  void merge(const duration_stat& other) noexcept {
    count_ += other.count_;
    total_ += other.total_;
    longest_ = std::max(longest_, other.longest_);
  }

  std::uint64_t count() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  instant total() const noexcept { return total_; }
  instant longest() const noexcept { return longest_; }
  /// 0 if empty.
  double mean_seconds() const noexcept {
    return empty() ? 0 : in_seconds(total_) / static_cast<double>(count_);
  }

private:
  std::uint64_t count_ = 0;
  instant total_{0};
  instant longest_{0};
};

/// What a device knows of the times of a gradient when it sends it; absent where it does not.
struct gradient_times {
  std::optional<instant> read;    ///< getting the weights of this shard into the model
  std::optional<instant> compute; ///< forward, backward and clipping; of the whole model
  std::optional<instant> sent;    ///< the moment, by the clock of the shard's own process
};

/// Where the time of gradients goes. A part that nobody measures is empty, not 0.
struct time_split {
  duration_stat read;    ///< getting the weights into the model
  duration_stat compute; ///< forward, backward and clipping
  duration_stat wire;    ///< between processes
  duration_stat mailbox; ///< from being sent until the shard takes it up
  duration_stat apply;   ///< the update; of a batch, each gradient has an equal share of it

  void merge(const time_split& other) noexcept {
    read.merge(other.read);
    compute.merge(other.compute);
    wire.merge(other.wire);
    mailbox.merge(other.mailbox);
    apply.merge(other.apply);
  }

  /// A gradient that is taken up at `arrived`.
  void arrive(const gradient_times& times, instant arrived) noexcept {
    if (times.read) read.add(*times.read);
    if (times.compute) compute.add(*times.compute);
    if (times.sent) mailbox.add(arrived - *times.sent);
  }
};

} // namespace mailgrad
