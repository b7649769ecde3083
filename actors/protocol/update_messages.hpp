#pragma once

#include <mailgrad/actors/protocol/wire.hpp>
#include <mailgrad/engine/shard/parallel_update.hpp>

#include <memory>
#include <string>

// How a shard updates on several threads while all workers wait for it, so that these threads are idle.
//
//     shard --help_update--> helpers: shard and helpers compute parts, and handle messages after each
//     helper that computes the last part --update_helped--> shard
//
// None of these messages leaves the process.

namespace mailgrad {

/// Shard to helpers, and a helper to itself after each part: compute a part of this update, if one is left.
/// The helper that computes the last part answers with `update_helped`, and one that fails with
/// `update_failed`.
struct help_update {
  std::shared_ptr<parallel_update> work;
  caf::actor shard;
};

/// Helper to shard: all parts are computed.
struct update_helped {};

/// Helper to shard: a part could not be computed.
struct update_failed {
  std::string why;
};

template <class Inspector>
auto inspect(Inspector& f, update_helped& x) {
  return wire::fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, update_failed& x) {
  return wire::fields(f, x, wire::field("why", x.why));
}

} // namespace mailgrad
