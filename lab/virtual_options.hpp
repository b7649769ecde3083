#pragma once

#include <mailgrad/engine/plan/training_options.hpp>

#include <cstdint>

namespace mailgrad::lab {

/// The options of a run whose workers are all simulated on this thread.
///
/// Errors  std::invalid_argument in one line, for an option that needs threads, files or cards.
training_options virtual_options(training_options asked, std::uint32_t workers);

} // namespace mailgrad::lab
