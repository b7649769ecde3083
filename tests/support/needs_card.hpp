#pragma once

#include <mailgrad/kernels/cuda/runtime.hpp>

/// Skips the test where there is no card. In a binary that is linked with the simulated card there always is
/// one.
#define MAILGRAD_NEEDS_CARD()                                                                                \
  if (const auto found = ::mailgrad::cuda::runtime::find_cards(); found.cards.empty())                       \
  GTEST_SKIP() << found.why_none
