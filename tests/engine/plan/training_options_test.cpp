#include <mailgrad/engine/plan/training_options.hpp>

#include <gtest/gtest.h>

namespace mailgrad {
namespace {

TEST(WorkerComputers, AreCoresByTheirHost) {
  EXPECT_EQ(computer_of({{device_kind::cpu, 0}, {device_kind::cpu, 1}}),
            (worker_computer{"the host and the host", ""}));
}

TEST(WorkerComputers, AreNamedByWorkerAndMultiplyByEachVersionOnce) {
  const worker_computer host{"the host"}, old_card{"B100", "cuBLAS 13.0.0"},
      new_card{"B100", "cuBLAS 13.1.0"};
  EXPECT_EQ(names_in_words({old_card, host, new_card}), "B100, the host, B100");
  EXPECT_EQ(products_in_words({old_card, host, new_card, old_card}), "cuBLAS 13.0.0, cuBLAS 13.1.0");
  EXPECT_EQ(products_in_words({host}), "none");
  EXPECT_TRUE(any_has_card({host, old_card}));
  EXPECT_FALSE(any_has_card({host, host}));
}

} // namespace
} // namespace mailgrad
