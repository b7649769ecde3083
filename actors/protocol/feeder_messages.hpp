#pragma once

#include <mailgrad/actors/protocol/wire.hpp>
#include <mailgrad/optim/identity.hpp>

#include <memory>

// How the feeder deals batches to the devices.

namespace mailgrad {

struct batch;

/// Device to feeder, one step before the batch is needed. The feeder answers with `dealt_batch` or
/// `data_exhausted`.
struct next_batch {
  rank worker;
};

/// Feeder to device, in answer to `next_batch`.
struct dealt_batch {
  std::shared_ptr<const batch> values;
};

/// Feeder to device, in answer to `next_batch`: there is no further batch for this worker.
struct data_exhausted {};

/// Coordinator to feeder: answer every further `next_batch` with `data_exhausted`. No answer.
struct stop_dealing {};

/// Coordinator to feeder, at the end of a run with a timeline. The feeder answers with `feeder_report`.
struct report_feeder {};

template <class Inspector>
auto inspect(Inspector& f, next_batch& x) {
  return wire::fields(f, x, wire::field("worker", x.worker));
}
template <class Inspector>
auto inspect(Inspector& f, data_exhausted& x) {
  return wire::fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, stop_dealing& x) {
  return wire::fields(f, x);
}
template <class Inspector>
auto inspect(Inspector& f, report_feeder& x) {
  return wire::fields(f, x);
}

} // namespace mailgrad
