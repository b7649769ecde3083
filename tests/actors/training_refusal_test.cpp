#include <mailgrad/tests/actors/small_training.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <system_error>

// What is refused before a run begins.

namespace mailgrad {
namespace {

using testing::options_for;
using testing::small_data;
using testing::small_model;

TEST(Training, RefusesWhatCannotBeTrained) {
  const auto refused = [](auto change) {
    training_options o = options_for("async", 1);
    change(o);
    EXPECT_THROW(training(small_model(), small_data(), o), std::invalid_argument);
  };
  refused([](training_options& o) { o.devices.clear(); });
  refused([](training_options& o) { o.batch = 0; });
  refused([](training_options& o) { o.shards = 0; });
  refused([](training_options& o) { o.shards = 1'000'000; });
  refused([](training_options& o) { o.epochs = 0; });
  refused([](training_options& o) { o.policy = "asink"; });
  refused([](training_options& o) { o.optimizer.learning_rate = -1; });
  const auto empty = std::make_shared<data_split>();
  EXPECT_THROW(training(small_model(), empty, options_for("async", 1)), std::invalid_argument);
}

TEST(Training, RefusesADeviceThatIsNotThere) {
  training_options o = options_for("async", 1);
  o.devices = {{device_kind::cuda, 77}};
  EXPECT_THROW(training(small_model(), small_data(), o), std::system_error);
}

} // namespace
} // namespace mailgrad
