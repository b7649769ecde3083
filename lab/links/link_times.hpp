#pragma once

#include <mailgrad/optim/identity.hpp>

#include <cstdint>
#include <string>

namespace mailgrad::lab {

/// How long messages are under way between a worker and a shard. Both directions are alike, and a message in
/// one does not hold back one in the other.
struct link_times {
  double latency = 0;   ///< seconds from the moment at which the last byte is sent
  double bandwidth = 0; ///< bytes a second; 0: sending takes no time

  bool takes_time() const noexcept { return latency > 0 || bandwidth > 0; }
};

/// What an option says of the links of all workers. Each text is a formula of the worker's number
/// (worker_formula); an empty one stands for links without that time.
struct link_formulas {
  std::string latency{};   ///< seconds, from 0 to 1e6
  std::string bandwidth{}; ///< bytes a second, from 1 to 1e15

  bool any() const noexcept { return !latency.empty() || !bandwidth.empty(); }
};

/// The times of the links of one worker.
///
/// Errors  std::invalid_argument in one line: a text is no formula, or gives this worker no such number.
link_times times_of(const link_formulas& f, rank worker, std::uint32_t workers);

} // namespace mailgrad::lab
