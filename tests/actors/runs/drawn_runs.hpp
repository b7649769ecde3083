#pragma once

#include <mailgrad/tests/actors/runs/assembled_run.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

namespace mailgrad::testing {

/// Fixture of tests of whole runs on the test's own thread. Their messages arrive in randomly drawn orders.
class DrawnRuns : public ::testing::Test {
protected:
  /// Makes the actors of a run. They do nothing until deliver().
  assembled_run assemble(const assembly& a) { return {system_.actors(), a, data_, time_}; }

  /// Delivers messages until none is left, but at most `most`. Up to a microsecond passes after each one.
  /// Returns how many it delivered.
  std::size_t deliver(drawn_order& order, std::size_t most = deterministic_system::endless) {
    return system_.deliver(order, most,
                           [&] { time_->advance(instant{static_cast<instant::rep>(order.below(1000))}); });
  }

  deterministic_system system_;
  std::shared_ptr<const data_split> data_ = small_data();
  const std::shared_ptr<manual_time> time_ = std::make_shared<manual_time>();
};

} // namespace mailgrad::testing
