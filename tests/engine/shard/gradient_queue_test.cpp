#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/shard/push_of.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/engine/shard/waiting_gradients.hpp>
#include <mailgrad/files/archive.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class GradientQueue : public ::testing::Test {
protected:
  void add(std::uint32_t worker, std::uint64_t step) {
    queue_.add({testing::push_of(worker, step, 0, testing::constant_gradient(layout_, 1)), {}});
  }
  static std::vector<std::pair<std::uint32_t, std::uint64_t>> taken(gradient_queue& from,
                                                                    std::size_t places) {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> all;
    for (const waiting_gradient& g : from.take(places))
      all.emplace_back(g.what.header.id.worker.value, g.what.header.id.step.value);
    return all;
  }

  const parameter_layout layout_ = testing::layout_of({{"w", {8}}}, 1);
  shard shard_{layout_, 0, 1, testing::sgd(1)};
  gradient_queue queue_;
};

TEST_F(GradientQueue, GivesWhatCameFirst) {
  add(1, 1);
  add(0, 1);
  add(1, 2);
  EXPECT_EQ(queue_.size(), 3U);
  EXPECT_EQ(queue_.of({1}), 2U);
  EXPECT_THAT(taken(queue_, 2), ElementsAre(Pair(1, 1), Pair(0, 1)));
  EXPECT_EQ(queue_.of({1}), 1U);
  EXPECT_THAT(taken(queue_, 5), ElementsAre(Pair(1, 2)));
  EXPECT_TRUE(queue_.empty());
  EXPECT_THAT(taken(queue_, 1), IsEmpty());
}

TEST_F(GradientQueue, KeepsThePlaceOfALostGradient) {
  add(1, 1);
  queue_.add_lost();
  add(0, 1);
  EXPECT_EQ(queue_.size(), 2U);
  EXPECT_THAT(taken(queue_, 2), ElementsAre(Pair(1, 1)));
  EXPECT_THAT(taken(queue_, 1), ElementsAre(Pair(0, 1)));
  queue_.add_lost();
  EXPECT_EQ(queue_.size(), 0U);
  EXPECT_FALSE(queue_.empty()) << "a place waits";
}

TEST_F(GradientQueue, GoesIntoACheckpointAndComesBack) {
  add(1, 4);
  queue_.add_lost();
  add(0, 7);
  saved_fields written;
  written.group("queue", [&] { queue_.keep(written, {}, shard_, 2); });
  saved_fields read(written.text(), written.arrays());
  gradient_queue other;
  read.group("queue", [&] { other.keep(read, {9}, shard_, 2); });
  EXPECT_EQ(other.size(), 2U);
  const std::vector<waiting_gradient> first = other.take(1);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].what.header.id.run, run_id{9});
  EXPECT_EQ(first[0].what.payload.values->dense.on_host<float>()[3], 1);
  EXPECT_THAT(taken(other, 1), IsEmpty()) << "the lost one";
  EXPECT_THAT(taken(other, 1), ElementsAre(Pair(0, 7)));
}

TEST_F(GradientQueue, RefusesAGradientOfAWorkerThatTheRunLacks) {
  add(1, 4);
  saved_fields written;
  written.group("queue", [&] { queue_.keep(written, {}, shard_, 2); });
  saved_fields read(written.text(), written.arrays());
  gradient_queue other;
  testing::expect_refused({"another run's",
                           [&] { read.group("queue", [&] { other.keep(read, {9}, shard_, 1); }); },
                           "place 0: there is no worker 1"});
}

} // namespace
} // namespace mailgrad
