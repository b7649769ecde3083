#pragma once

#include <mailgrad/actors/protocol/wire.hpp>
#include <mailgrad/engine/account/actor_reports.hpp>

#include <cstdint>

// How the books of a run are told while it goes on. Each actor copies what it has counted so far, without
// weights and timelines, and no actor waits for another.
//
//     owner --gather_books--> coordinator --copy_books--> every shard --shard_books--> coordinator
//                                         --copy_books--> every device --worker_books--> coordinator
//     coordinator, when all have answered --> the owner's callback
//     owner --tell_books--> coordinator --> the owner's callback, with the newest copies of all

namespace mailgrad {

/// The owner of a run to coordinator: ask every actor for its books, and tell them when all have answered. An
/// actor that has not answered an earlier question is not asked again. No answer but the callback.
struct gather_books {
  std::uint64_t request = 0; ///< from 1, rising
};

/// The owner of a run to coordinator: do not wait for those that have not answered. No answer but the
/// callback.
struct tell_books {
  std::uint64_t request = 0;
};

/// Coordinator to shards and devices; wait_until_prepared() to shards. The actor answers with a copy of its
/// books as soon as it handles messages: a device after its step, a shard when it is made or has updated.
struct copy_books {};

/// Shard to coordinator, in answer to `copy_books`. Gradients that wait for their turn or in a batch stand in
/// no account yet, unless the shard has taken them.
struct shard_books {
  shard_report so_far; ///< without weights
};

/// Device to coordinator, in answer to `copy_books`.
struct worker_books {
  worker_report so_far;
};

template <class Inspector>
auto inspect(Inspector& f, gather_books& x) {
  return wire::fields(f, x, wire::field("request", x.request));
}
template <class Inspector>
auto inspect(Inspector& f, tell_books& x) {
  return wire::fields(f, x, wire::field("request", x.request));
}
template <class Inspector>
auto inspect(Inspector& f, copy_books& x) {
  return wire::fields(f, x);
}

template <wire::names_fields Inspector>
auto inspect(Inspector& f, shard_books& x) {
  return wire::fields(f, x, wire::field("so_far", x.so_far));
}
template <wire::names_fields Inspector>
auto inspect(Inspector& f, worker_books& x) {
  return wire::fields(f, x, wire::field("so_far", x.so_far));
}

} // namespace mailgrad
