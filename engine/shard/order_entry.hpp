#pragma once

#include <mailgrad/optim/policies/policy.hpp>

#include <cstdint>

namespace mailgrad {

/// One thing that a shard judged, or that changed whom it judges. First shard to every other, while the
/// policy wants all of them to judge alike; any shard to the recorder; a recording to every shard that
/// repeats a run.
struct order_entry {
  enum class kind : std::uint8_t {
    joined,   ///< `worker` got its first weights
    gradient, ///< of `worker`, its step `step`
    left,     ///< `worker` is waited for no longer
    switched, ///< the next policy begins
  };
  kind what = kind::gradient;
  rank worker;
  std::uint64_t step = 0;
  std::uint64_t version_read = 0; ///< not in a recording
  std::int64_t arrived = 0;       ///< ns of the time source of the shard that was first to judge it
};

/// A batch that the feeder dealt.
struct recorded_deal {
  rank worker;
  std::uint64_t number = 0; ///< as dealt, from 0, counted over all epochs

  friend bool operator==(const recorded_deal&, const recorded_deal&) = default;
};

} // namespace mailgrad
