#pragma once

#include <mailgrad/actors/protocol/caf_compat.hpp>
#include <mailgrad/engine/shard/parallel_update.hpp>

#include <memory>
#include <string>

// How a shard updates on several threads, while all workers wait for it and these threads would rest.
//
//     shard --help_update--> hands;  shard and hands compute parts, each looking at its mailbox in between
//     hand that computes the last part --update_helped--> shard
//
// All of them stay inside the process.

namespace mailgrad {

/// Shard to hands, and a hand to itself after each part: compute parts of this update, if any are left.
/// Answered with `update_helped` by whoever computes the last, if that is not the shard, or `update_failed`.
struct help_update {
  std::shared_ptr<parallel_update> work;
  caf::actor shard;
};

/// Hand to shard: all parts are computed.
struct update_helped {};

/// Hand to shard: a part could not be computed.
struct update_failed {
  std::string why;
};

template <class Inspector>
auto inspect(Inspector& f, update_helped& x) {
  return fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, update_failed& x) {
  return fields(f, x, field("why", x.why));
}

} // namespace mailgrad
